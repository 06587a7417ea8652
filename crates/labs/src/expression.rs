//! Arithmetic over named quantities, as `lab.toml` writes it.
//!
//! `{POINT: METRIC}` is a metric of a point, a bare name one of the lab's numbers
//! or values. All numbers are `f64`, so `/` is the exact quotient (`floor` makes
//! the whole one of it), and a comparison is 1 or 0.

use exmex::{BinOp, Express, FlatEx, MakeOperators, Operator};

/// The operators and functions of the language.
#[derive(Clone, Debug)]
struct Operators;

fn truth(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

impl MakeOperators<f64> for Operators {
    fn make<'a>() -> Vec<Operator<'a, f64>> {
        let binary = |repr, prio, is_commutative, apply: fn(f64, f64) -> f64| {
            Operator::make_bin(repr, BinOp { apply, prio, is_commutative })
        };
        vec![
            binary("||", 0, true, |a, b| truth(a != 0.0 || b != 0.0)),
            binary("&&", 1, true, |a, b| truth(a != 0.0 && b != 0.0)),
            binary("==", 2, true, |a, b| truth(a == b)),
            binary("!=", 2, true, |a, b| truth(a != b)),
            binary("<=", 2, false, |a, b| truth(a <= b)),
            binary(">=", 2, false, |a, b| truth(a >= b)),
            binary("<", 2, false, |a, b| truth(a < b)),
            binary(">", 2, false, |a, b| truth(a > b)),
            binary("+", 3, true, |a, b| a + b),
            Operator::make_bin_unary(
                "-",
                BinOp { apply: |a, b| a - b, prio: 3, is_commutative: false },
                |a| -a,
            ),
            // One level, so that a row of them goes from left to right.
            binary("*", 4, false, |a, b| a * b),
            binary("/", 4, false, |a, b| a / b),
            binary("%", 4, false, f64::rem_euclid),
            binary("min", 5, true, f64::min),
            binary("max", 5, true, f64::max),
            Operator::make_unary("floor", f64::floor),
            Operator::make_unary("ceil", f64::ceil),
            Operator::make_unary("round", f64::round),
            Operator::make_unary("abs", f64::abs),
        ]
    }
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    parsed: FlatEx<f64, Operators>,
}

impl Expression {
    /// Parses `text`; `Err` says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // The parser takes the end of the text for a closing brace.
        if text.matches('{').count() != text.matches('}').count() {
            return Err(format!("`{text}` is no expression: a brace is not closed"));
        }
        FlatEx::parse(text)
            .map(|parsed| Self { parsed })
            .map_err(|error| format!("`{text}` is no expression: {error}"))
    }

    /// The names that it needs, each once.
    pub(crate) fn names(&self) -> &[String] {
        self.parsed.var_names()
    }

    /// Its value, with `value` for each name; not a number where it divides 0 by
    /// 0.
    pub(crate) fn eval<E: From<String>>(
        &self,
        value: impl FnMut(&str) -> Result<f64, E>,
    ) -> Result<f64, E> {
        let values =
            self.names().iter().map(String::as_str).map(value).collect::<Result<Vec<f64>, E>>()?;
        self.parsed.eval(&values).map_err(|error| E::from(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> f64 {
        let value = |name: &str| match name {
            "n" => Ok(10.0),
            "p: sectors/request" => Ok(8.0),
            other => Err(other.to_owned()),
        };
        Expression::parse(text).expect("it parses").eval(value).expect("it has a value")
    }

    #[test]
    fn arithmetic_has_the_usual_precedence() {
        assert_eq!(eval("1 + 2 * 3"), 7.0);
        assert_eq!(eval("12 / 2 * 3"), 18.0);
        assert_eq!(eval("7 - 2 - 1"), 4.0);
        assert_eq!(eval("-n + 12"), 2.0);
        assert_eq!(eval("floor(n / 4) + n % 4"), 4.0);
        assert_eq!(eval("(3 max n) min 9"), 9.0);
    }

    #[test]
    fn comparisons_are_one_or_zero() {
        assert_eq!(eval("n >= 10 && n < 11"), 1.0);
        assert_eq!(eval("n == 9 || n != 10"), 0.0);
        assert_eq!(eval("2 * n <= 19"), 0.0);
    }

    #[test]
    fn metrics_stand_in_braces() {
        assert_eq!(eval("{p: sectors/request} / 4"), 2.0);
        let names = Expression::parse("{p: sectors/request} + n").expect("it parses");
        assert_eq!(names.names(), ["n", "p: sectors/request"]);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["", "1 +", "(2", "{p", "1 2", "n )"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
        let unknown = Expression::parse("m").expect("a name").eval(|name| Err(name.to_owned()));
        assert_eq!(unknown, Err("m".to_owned()));
    }
}
