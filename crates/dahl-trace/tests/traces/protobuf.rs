//! A decoder of protobuf that knows nothing of the encoder.

/// A field: its number and value.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub number: u64,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(u64),
    Bytes(Vec<u8>),
}

impl Field {
    pub fn int(&self) -> u64 {
        match &self.value {
            Value::Int(value) => *value,
            Value::Bytes(_) => panic!("field {} is no number", self.number),
        }
    }

    pub fn text(&self) -> String {
        match &self.value {
            Value::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Value::Int(_) => panic!("field {} is no text", self.number),
        }
    }

    pub fn message(&self) -> Vec<Field> {
        match &self.value {
            Value::Bytes(bytes) => decode(bytes),
            Value::Int(_) => panic!("field {} is no message", self.number),
        }
    }
}

/// The first field of this number.
pub fn get(fields: &[Field], number: u64) -> Option<&Field> {
    fields.iter().find(|field| field.number == number)
}

pub fn decode(mut bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Int(varint(&mut bytes)),
            1 => Value::Int(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let len = varint(&mut bytes) as usize;
                Value::Bytes(take(&mut bytes, len).to_vec())
            }
            other => panic!("wire type {other} is not used"),
        };
        fields.push(Field { number: key >> 3, value });
    }
    fields
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(n);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
