//! Texts of errors about JSON, without the names of types, which readers outside the program do not know.

use crate::beginning_of;

const OBJECT: &str = "an object";

/// What serde expects, as it names the types of a program, and in terms of JSON.
const EXPECTED: [(&str, &str); 11] = [
    ("internally tagged enum ", OBJECT),
    ("adjacently tagged enum ", OBJECT),
    ("tuple struct ", "an array"),
    ("tuple variant ", "an array"),
    ("struct variant ", OBJECT),
    ("unit variant ", "a name"),
    ("unit struct ", "null"),
    ("newtype variant ", "a value"),
    ("struct ", OBJECT),
    ("a map", OBJECT),
    ("a sequence", "an array"),
];

/// The same for numbers.
const NUMBERS: [(&str, &str); 12] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of 0 or more"),
    ("usize", "a whole number of 0 or more"),
    ("i8", "a whole number"),
    ("i16", "a whole number"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
];

/// The beginning of serde's error for a value that fits no alternative, before the name of their type.
const NO_VARIANT: &str = "data did not match any variant of untagged enum ";

/// The text after its first word.
fn after_word(text: &str) -> &str {
    text.find(' ').map_or("", |end| text.split_at(end).1)
}

/// The position at the end of an error's text.
fn position_in(text: &str) -> &str {
    text.find(" at line ").map_or("", |start| text.split_at(start).1)
}

/// What serde expects in terms of JSON, and the text after it; `None` if it names no type of a program.
fn in_terms_of_json(expected: &str) -> Option<(&'static str, &str)> {
    let of_kind = |(kind, json): &(&'static str, &'static str)| Some((*json, after_word(expected.strip_prefix(kind)?)));
    let after = after_word(expected);
    let number = || NUMBERS.iter().find(|(name, _)| expected.strip_suffix(after) == Some(*name));
    EXPECTED.iter().find_map(of_kind).or_else(|| number().map(|(_, json)| (*json, after)))
}

/// The text of an error of serde, without the names of types, which clients do not know. A value of the request can be
/// in it: of a long text, the beginning.
pub fn shown_json_problem(problem: &dyn std::fmt::Display) -> String {
    const MAX_LENGTH: usize = 200;
    let text = problem.to_string();
    if let Some((before, expected)) = text.rsplit_once(", expected ") {
        let (value, dots) = beginning_of(before, MAX_LENGTH);
        let (expected, after) = in_terms_of_json(expected).unwrap_or((expected, ""));
        // serde takes an array for the members of an object in their order, and counts them.
        if expected == OBJECT && (before.starts_with("invalid length ") || before == "invalid type: sequence") {
            return format!("an array instead of {OBJECT}{}", position_in(after));
        }
        let (expected, more) = beginning_of(expected, MAX_LENGTH);
        let (after, _) = beginning_of(after, MAX_LENGTH);
        return [value, dots, ", expected ", expected, more, after].concat();
    }
    if let Some(name) = text.strip_prefix(NO_VARIANT) {
        return format!("the value has none of the possible forms{}", after_word(name));
    }
    let (beginning, dots) = beginning_of(&text, MAX_LENGTH);
    [beginning, dots].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_terms_of_json_and_long_texts_are_cut() {
        let cases = [
            (
                "invalid length 0, expected struct Choices with 3 elements at line 1 column 2",
                "an array instead of an object at line 1 column 2",
            ),
            (
                "invalid type: sequence, expected a map at line 3 column 4",
                "an array instead of an object at line 3 column 4",
            ),
            ("invalid type: sequence, expected struct Choices", "an array instead of an object"),
            (
                "invalid type: map, expected u8 at line 2 column 1",
                "invalid type: map, expected a whole number from 0 to 255 at line 2 column 1",
            ),
            (
                "data did not match any variant of untagged enum Form at line 1 column 9",
                "the value has none of the possible forms at line 1 column 9",
            ),
            ("missing field `state` at line 1 column 21", "missing field `state` at line 1 column 21"),
        ];
        for (serde, shown) in cases {
            assert_eq!(shown_json_problem(&serde), shown);
        }
        assert!(shown_json_problem(&"x".repeat(1_000)).chars().count() <= 201);
    }
}
