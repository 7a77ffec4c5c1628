//! Learning-rate schedules as text: `constant`, `step:EVERY:FACTOR`, `linear[:LAST]`, `cosine[:LAST]`.

use dahl::optim::Decay;

/// Reads a schedule.
pub fn decay(text: &str) -> Result<Decay, String> {
    let expected = || {
        "expected constant, step:EVERY:FACTOR (as in step:1000:0.1), linear, linear:LAST, cosine or cosine:LAST".to_string()
    };
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("'{text}' is no number from 0 up; {}", expected())),
    };
    match text.split(':').collect::<Vec<_>>()[..] {
        ["constant"] => Ok(Decay::Constant),
        ["step", every, factor] => match every.parse() {
            Ok(0) | Err(_) => Err(format!("'{every}' is no number of steps; {}", expected())),
            Ok(every) => Ok(Decay::Steps { every, factor: number(factor)? }),
        },
        ["linear"] => Ok(Decay::Linear { floor: 0.0 }),
        ["linear", last] => Ok(Decay::Linear { floor: number(last)? }),
        ["cosine"] => Ok(Decay::Cosine { floor: 0.0 }),
        ["cosine", last] => Ok(Decay::Cosine { floor: number(last)? }),
        _ => Err(expected()),
    }
}

/// Writes a schedule so that [`decay`] reads the same one.
pub fn text(decay: Decay) -> String {
    match decay {
        Decay::Constant => "constant".to_string(),
        Decay::Steps { every, factor } => format!("step:{every}:{factor}"),
        Decay::Linear { floor } => format!("linear:{floor}"),
        Decay::Cosine { floor } => format!("cosine:{floor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_and_written_alike() {
        let cases = [
            ("constant", Decay::Constant),
            ("step:1000:0.1", Decay::Steps { every: 1000, factor: 0.1 }),
            ("linear", Decay::Linear { floor: 0.0 }),
            ("cosine:1e-4", Decay::Cosine { floor: 1e-4 }),
        ];
        for (spelt, expected) in cases {
            assert_eq!(decay(spelt), Ok(expected));
            assert_eq!(decay(&text(expected)), Ok(expected));
        }
    }

    #[test]
    fn others_are_refused_with_what_was_expected() {
        for spelt in [
            "",
            "step",
            "step:10",
            "step:0:0.1",
            "step:-1:0.1",
            "step:10:x",
            "cosine:-1",
            "cosine:nan",
            "poly",
            "linear:0:0",
        ] {
            assert!(decay(spelt).unwrap_err().contains("expected constant"), "{spelt}");
        }
    }
}
