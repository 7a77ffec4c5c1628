//! From the line to the [`Relation`]: a small recursive-descent parser, and the checks that need no shapes.
//!
//! Lines are written by programmers, so errors point at the column of the offending piece. The invariant that
//! binding relies on: every axis number is valid, each axis is defined by at most one equation, no axis
//! depends on itself, and an argument has at most one `..`.

use super::{Accumulate, Arg, Dim, Equation, Factor, Limit, Mode, Outside, Relation};
use crate::error::{Error, ErrorKind, Result};

/// Parses a line.
pub(super) fn parse(line: &str) -> Result<Relation> {
    let mut parser = Parser { line, tokens: tokenize(line)?, next: 0 };
    let inputs = parser.arg_list()?;
    parser.expect("->")?;
    let outputs = parser.arg_list()?;
    if outputs.is_empty() {
        return Err(parser.expected("an output, as in `y[n]`"));
    }
    let clauses = if parser.accept("where") { parser.clauses()? } else { Vec::new() };
    if parser.next < parser.tokens.len() {
        return Err(parser.expected("an argument, `where` or the end of the line"));
    }
    resolve(line, inputs, outputs, clauses)
}

/// A piece of the line: a name, a number or a symbol, and where it starts (counted in characters, from 1).
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    column: usize,
}

impl Token<'_> {
    fn is_name(self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }

    fn is_number(self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_digit())
    }
}

const SYMBOLS: [&str; 13] = ["->", "..", "+=", "[", "]", ",", "?", "!", "*", "+", "-", "=", "<"];

fn tokenize(line: &str) -> Result<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = line;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if first.is_whitespace() || is_word(first) {
            let same = |c: char| if is_word(first) { is_word(c) } else { c.is_whitespace() };
            rest.find(|c| !same(c)).unwrap_or(rest.len())
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            symbol.len()
        } else {
            return Err(error(line, column, format!("`{first}` has no meaning in an index relation")));
        };
        let (text, after) = rest.split_at(len);
        if !first.is_whitespace() {
            tokens.push(Token { text, column });
        }
        column += text.chars().count();
        rest = after;
    }
    Ok(tokens)
}

fn error(line: &str, column: usize, sentence: String) -> Error {
    Error::new(ErrorKind::Relation, format!("column {column} of `{line}`: {sentence}"))
}

/// An argument as written.
struct ArgText<'a> {
    name: Token<'a>,
    dims: Vec<(Token<'a>, bool)>,
    outside: Option<(Token<'a>, Outside)>,
    accumulate: Option<(Token<'a>, Accumulate)>,
}

/// One piece after `where`.
enum Clause<'a> {
    Equation { left: Token<'a>, terms: Vec<(bool, Vec<Token<'a>>)>, text: String },
    Bound { axis: Token<'a>, extent: Token<'a> },
}

struct Parser<'a> {
    line: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.next + ahead).map_or("", |token| token.text)
    }

    fn expected(&self, what: &str) -> Error {
        match self.tokens.get(self.next) {
            Some(token) => error(self.line, token.column, format!("expected {what}, found `{}`", token.text)),
            None => {
                let column = self.line.chars().count() + 1;
                error(self.line, column, format!("expected {what}, found the end of the line"))
            }
        }
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.peek(0) == text;
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.accept(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    fn token(&mut self, what: &str, fits: impl Fn(Token<'a>) -> bool) -> Result<Token<'a>> {
        match self.tokens.get(self.next) {
            Some(&token) if fits(token) && token.text != "where" => {
                self.next += 1;
                Ok(token)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn arg_list(&mut self) -> Result<Vec<ArgText<'a>>> {
        let mut args = Vec::new();
        while self.next < self.tokens.len() && !matches!(self.peek(0), "->" | "where") {
            args.push(self.arg()?);
        }
        Ok(args)
    }

    fn arg(&mut self) -> Result<ArgText<'a>> {
        let name = self.token("an argument, as in `x[n,i]`, or `->`", Token::is_name)?;
        self.expect("[")?;
        let mut dims = Vec::new();
        if !self.accept("]") {
            loop {
                let dim = |token: Token<'_>| token.is_name() || matches!(token.text, "*" | "..");
                let token = self.token("an axis, `*` or `..`", dim)?;
                dims.push((token, self.accept("!")));
                if self.accept("]") {
                    break;
                }
                if !self.accept(",") {
                    return Err(self.expected("`,` or `]`"));
                }
            }
        }
        let outside = self.outside()?;
        let accumulate = self.accumulate();
        Ok(ArgText { name, dims, outside, accumulate })
    }

    fn outside(&mut self) -> Result<Option<(Token<'a>, Outside)>> {
        let start = self.next;
        if !self.accept("?") {
            return Ok(None);
        }
        let outside = match (self.peek(0), self.peek(1)) {
            ("0", _) => Outside::Zero,
            ("skip", _) => Outside::Skip,
            ("-", "inf") => Outside::NegInf,
            _ => return Err(self.expected("`0`, `-inf` or `skip`")),
        };
        self.next += if outside == Outside::NegInf { 2 } else { 1 };
        Ok(Some((self.tokens[start], outside)))
    }

    fn accumulate(&mut self) -> Option<(Token<'a>, Accumulate)> {
        let (how, len) = match (self.peek(0), self.peek(1)) {
            ("+=", _) => (Accumulate::Add, 1),
            ("max", "=") => (Accumulate::Max, 2),
            ("min", "=") => (Accumulate::Min, 2),
            _ => return None,
        };
        let token = self.tokens[self.next];
        self.next += len;
        Some((token, how))
    }

    fn clauses(&mut self) -> Result<Vec<Clause<'a>>> {
        let mut clauses = Vec::new();
        loop {
            let start = self.next;
            let axis = self.token("an axis", Token::is_name)?;
            if self.accept("<") {
                let extent = self.token("a parameter or a number", |t| t.is_name() || t.is_number())?;
                clauses.push(Clause::Bound { axis, extent });
            } else if self.accept("=") {
                let terms = self.sum()?;
                let text = self.text(start, self.next);
                clauses.push(Clause::Equation { left: axis, terms, text });
            } else {
                return Err(self.expected("`=` or `<`"));
            }
            if !self.accept(",") {
                return Ok(clauses);
            }
        }
    }

    /// Signed products: whether subtracted, and the factors.
    fn sum(&mut self) -> Result<Vec<(bool, Vec<Token<'a>>)>> {
        let mut terms = Vec::new();
        let mut minus = self.accept("-");
        loop {
            let mut factors = Vec::new();
            loop {
                let what = "an axis, a parameter or a number";
                factors.push(self.token(what, |token| token.is_name() || token.is_number())?);
                if !self.accept("*") {
                    break;
                }
            }
            terms.push((minus, factors));
            minus = self.peek(0) == "-";
            if !self.accept("+") && !self.accept("-") {
                return Ok(terms);
            }
        }
    }

    /// The tokens of a clause in their usual spelling: spaces around `=` only.
    fn text(&self, from: usize, to: usize) -> String {
        let words = self.tokens[from..to].iter().map(|token| token.text);
        words.map(|word| if word == "=" { " = " } else { word }).collect()
    }
}

/// Turns names into numbers and checks what can be checked without shapes.
fn resolve(
    line: &str,
    inputs: Vec<ArgText<'_>>,
    outputs: Vec<ArgText<'_>>,
    clauses: Vec<Clause<'_>>,
) -> Result<Relation> {
    let mut names = Names { line, axes: Vec::new(), params: Vec::new() };
    // An axis is what indexes an argument, is defined by an equation or is bounded; all other names are
    // parameters.
    for (token, _) in inputs.iter().chain(&outputs).flat_map(|arg| &arg.dims) {
        if token.is_name() {
            names.add_axis(token.text);
        }
    }
    for clause in &clauses {
        let (Clause::Equation { left: axis, .. } | Clause::Bound { axis, .. }) = clause;
        names.add_axis(axis.text);
    }

    let args = names.args(&inputs, &outputs)?;
    let n_inputs = args.iter().filter(|arg| arg.mode == Mode::Read).count();
    let (mut equations, mut bounds) = (Vec::<Equation>::new(), Vec::<Limit>::new());
    for clause in clauses {
        match clause {
            Clause::Equation { left, terms, text } => {
                let equation = names.equation(left, &terms, text)?;
                if equations.iter().any(|earlier| earlier.left == equation.left) {
                    let sentence = format!("{} is defined by a second equation", left.text);
                    return Err(error(line, left.column, sentence));
                }
                equations.push(equation);
                if depends_on_itself(&equations, equations[equations.len() - 1].left) {
                    return Err(error(line, left.column, format!("{} depends on itself", left.text)));
                }
            }
            Clause::Bound { axis, extent } => {
                let number = names.axis(axis.text);
                if bounds.iter().any(|earlier| earlier.axis == number) {
                    return Err(error(line, axis.column, format!("{} is bounded twice", axis.text)));
                }
                if names.is_axis(extent.text) {
                    let sentence =
                        format!("expected a parameter or a number as bound, but {} is an axis", extent.text);
                    return Err(error(line, extent.column, sentence));
                }
                let extent = names.factor(extent)?;
                bounds.push(Limit { axis: number, extent });
            }
        }
    }
    Ok(Relation { args, n_inputs, axes: names.axes, params: names.params, equations, bounds })
}

fn depends_on_itself(equations: &[Equation], axis: usize) -> bool {
    let mut reached = vec![axis];
    let mut done = 0;
    while done < reached.len() {
        let from = reached[done];
        done += 1;
        for &(term, _) in equations.iter().filter(|e| e.left == from).flat_map(|e| &e.terms) {
            if term == axis {
                return true;
            }
            if !reached.contains(&term) {
                reached.push(term);
            }
        }
    }
    false
}

/// The names seen so far.
struct Names<'a> {
    line: &'a str,
    axes: Vec<String>,
    params: Vec<String>,
}

impl Names<'_> {
    fn add_axis(&mut self, name: &str) {
        if !self.is_axis(name) {
            self.axes.push(name.to_owned());
        }
    }

    fn is_axis(&self, name: &str) -> bool {
        self.axes.iter().any(|axis| axis == name)
    }

    fn axis(&self, name: &str) -> usize {
        self.axes.iter().position(|axis| axis == name).expect("every axis was added")
    }

    /// The arguments in call order.
    fn args(&self, inputs: &[ArgText<'_>], outputs: &[ArgText<'_>]) -> Result<Vec<Arg>> {
        for side in [inputs, outputs] {
            for (i, arg) in side.iter().enumerate() {
                if side[..i].iter().any(|earlier| earlier.name.text == arg.name.text) {
                    let sentence = format!("{} is named twice on the same side", arg.name.text);
                    return Err(error(self.line, arg.name.column, sentence));
                }
            }
        }
        let twin = |name: &str| outputs.iter().any(|output| output.name.text == name);
        let mut args = Vec::new();
        for input in inputs {
            if let Some((token, _)) = &input.accumulate {
                let sentence = format!("{} is an input; only outputs accumulate", input.name.text);
                return Err(error(self.line, token.column, sentence));
            }
            if !twin(input.name.text) {
                args.push(self.arg(input, Mode::Read)?);
            }
        }
        for output in outputs {
            if let Some((token, Outside::Zero | Outside::NegInf)) = output.outside {
                let sentence = format!("{} is an output, and nothing is written outside", output.name.text);
                return Err(error(self.line, token.column, sentence));
            }
            if let Some((Token { text: "*", column }, _)) =
                output.dims.iter().find(|(dim, _)| dim.text == "*")
            {
                let sentence = format!("{} is an output, which data cannot index", output.name.text);
                return Err(error(self.line, *column, sentence));
            }
            let Some(input) = inputs.iter().find(|input| input.name.text == output.name.text) else {
                args.push(self.arg(output, Mode::Write)?);
                continue;
            };
            let mut both = self.arg(output, Mode::ReadWrite)?;
            let read = self.arg(input, Mode::Read)?;
            if both.dims != read.dims {
                let sentence =
                    format!("{} is read and written, but not indexed alike on both sides", both.name);
                return Err(error(self.line, output.name.column, sentence));
            }
            if let Some((token, _)) = output.accumulate {
                let sentence = format!("{} is read and written, so it cannot also accumulate", both.name);
                return Err(error(self.line, token.column, sentence));
            }
            both.never.extend(read.never);
            args.push(both);
        }
        Ok(args)
    }

    fn arg(&self, text: &ArgText<'_>, mode: Mode) -> Result<Arg> {
        let (mut dims, mut never) = (Vec::new(), Vec::new());
        for &(token, fixed) in &text.dims {
            let dim = match token.text {
                "*" => Dim::Data,
                ".." => Dim::Rest,
                name => Dim::Axis(self.axis(name)),
            };
            if dim != Dim::Data && dims.contains(&dim) {
                let sentence = format!("{} indexes {} twice", token.text, text.name.text);
                return Err(error(self.line, token.column, sentence));
            }
            dims.push(dim);
            if fixed {
                never.push(dim);
            }
        }
        Ok(Arg {
            name: text.name.text.to_owned(),
            mode,
            accumulate: text.accumulate.map(|(_, how)| how),
            outside: text.outside.map_or(Outside::Error, |(_, outside)| outside),
            dims,
            never,
        })
    }

    fn equation(
        &mut self,
        left: Token<'_>,
        sum: &[(bool, Vec<Token<'_>>)],
        text: String,
    ) -> Result<Equation> {
        let (mut terms, mut constants) = (Vec::<(usize, Vec<Factor>)>::new(), Vec::new());
        for (minus, product) in sum {
            let mut axis: Option<Token<'_>> = None;
            let mut factors = Vec::new();
            for &token in product {
                if !self.is_axis(token.text) {
                    factors.push(self.factor(token)?);
                } else if let Some(first) = axis.replace(token) {
                    let sentence = format!(
                        "{} and {} are axes; multiply by numbers or parameters only",
                        first.text, token.text
                    );
                    return Err(error(self.line, token.column, sentence));
                }
            }
            let Some(token) = axis else {
                constants.push((*minus, factors));
                continue;
            };
            let number = self.axis(token.text);
            if *minus {
                let sentence =
                    format!("{} is subtracted; turn the equation round so that axes are added", token.text);
                return Err(error(self.line, token.column, sentence));
            }
            if factors.contains(&Factor::Int(0)) {
                let sentence = format!("the coefficient of {} is 0; expected at least 1", token.text);
                return Err(error(self.line, token.column, sentence));
            }
            if terms.iter().any(|(earlier, _)| *earlier == number) {
                let sentence = format!("{} occurs twice in one equation", token.text);
                return Err(error(self.line, token.column, sentence));
            }
            terms.push((number, factors));
        }
        if terms.is_empty() {
            let sentence = format!(
                "expected an axis on the right of `{text}`; write `{0}<1` for a fixed index",
                left.text
            );
            return Err(error(self.line, left.column, sentence));
        }
        Ok(Equation { left: self.axis(left.text), terms, constants, text })
    }

    fn factor(&mut self, token: Token<'_>) -> Result<Factor> {
        if token.is_number() {
            return match token.text.parse::<i64>() {
                Ok(number) => Ok(Factor::Int(number)),
                Err(_) => {
                    let sentence = format!("expected a whole number, found `{}`", token.text);
                    Err(error(self.line, token.column, sentence))
                }
            };
        }
        let known = self.params.iter().position(|param| param == token.text);
        Ok(Factor::Param(known.unwrap_or_else(|| {
            self.params.push(token.text.to_owned());
            self.params.len() - 1
        })))
    }
}
