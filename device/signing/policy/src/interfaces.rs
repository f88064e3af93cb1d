//! Contract interfaces: decode calls into names and arguments.

use std::collections::HashMap;

use alloy_dyn_abi::{DynSolType, DynSolValue, JsonAbiExt as _};
use alloy_json_abi::{Function, JsonAbi};
use alloy_primitives::{Address, Selector, hex};

use crate::{DisplayText, PolicyError, layout};

/// Maximum length of the JSON of one interface, bytes.
pub(crate) const MAX_INTERFACE_BYTES: usize = 1 << 20;
/// Maximum number of functions in all interfaces together.
const MAX_FUNCTIONS: usize = 10_000;
/// Maximum length of call data that is decoded, bytes.
const MAX_DECODED_BYTES: usize = 128 << 10;
/// Maximum nesting of an argument's type. Types in public interfaces have four or five levels.
const MAX_TYPE_DEPTH: usize = 16;

/// The interfaces that a policy names.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    functions: HashMap<Selector, Vec<KnownFunction>>,
    count: usize,
}

#[derive(Clone, Debug)]
struct KnownFunction {
    /// Name of the interface and the function, such as `erc20.transfer`.
    name: String,
    function: Function,
    types: Vec<DynSolType>,
    /// The contracts that implement it; `None` means any.
    contracts: Option<Vec<Address>>,
}

/// A decoded call of a known function.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedCall {
    /// Name of the interface and the function, such as `erc20.transfer`.
    pub name: String,
    /// The function's signature, such as `transfer(address,uint256)`.
    pub signature: String,
    /// The arguments, in order.
    pub arguments: Vec<DecodedArgument>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedArgument {
    /// Its name; empty if the interface has none.
    pub name: String,
    /// Its type, such as `uint256`.
    pub kind: String,
    /// Its value.
    pub value: DynSolValue,
}

impl DecodedArgument {
    /// The value formatted for a person.
    pub fn shown(&self) -> String {
        DisplayText::new(&self.text()).as_str().to_owned()
    }

    /// The whole value as text, with no character removed.
    pub(crate) fn text(&self) -> String {
        shown_value(&self.value, 0)
    }
}

impl Interfaces {
    /// Adds an interface of the given contracts, or of any contract if `None`. `json` is a list of functions as
    /// compilers write it, or an object with such a list as `abi`.
    ///
    /// # Errors
    /// [`PolicyError::Interface`] if `json` is too long or not an interface, or if an argument's type is unknown, too
    /// deep or empty.
    pub fn add(&mut self, name: &str, json: &str, contracts: Option<&[Address]>) -> Result<(), PolicyError> {
        let error = |reason: String| PolicyError::Interface { name: name.to_owned(), reason };
        if json.len() > MAX_INTERFACE_BYTES {
            return Err(error(format!("it has {} bytes; at most {MAX_INTERFACE_BYTES} are allowed", json.len())));
        }
        let abi =
            JsonAbi::from_json_str(json).map_err(|reason| error(format!("not an interface in JSON: {reason}")))?;
        for function in abi.functions() {
            let types = function.inputs.iter().map(|input| input.selector_type().parse::<DynSolType>());
            let types: Vec<DynSolType> =
                types.collect::<Result<_, _>>().map_err(|reason| error(format!("{}: {reason}", function.name)))?;
            if types.iter().any(|kind| depth(kind) > MAX_TYPE_DEPTH) {
                return Err(error(format!("{}: an argument has more than {MAX_TYPE_DEPTH} levels", function.name)));
            }
            if types.iter().any(layout::has_empty_part) {
                return Err(error(format!("{}: an argument has an array of length 0", function.name)));
            }
            self.count += 1;
            if self.count > MAX_FUNCTIONS {
                return Err(error(format!("more than {MAX_FUNCTIONS} functions in all interfaces")));
            }
            self.functions.entry(function.selector()).or_default().push(KnownFunction {
                name: format!("{name}.{}", function.name),
                function: function.clone(),
                types,
                contracts: contracts.map(<[Address]>::to_vec),
            });
        }
        Ok(())
    }

    /// The selectors of a function such as `erc20.transfer`: several if it is overloaded, none if it is unknown.
    pub(crate) fn selectors<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Selector> + 'a {
        self.functions
            .iter()
            .filter(move |(_, known)| known.iter().any(|known| known.name == name))
            .map(|(selector, _)| *selector)
    }

    /// Returns whether a function such as `erc20.transfer` has an argument of this name.
    pub(crate) fn has_argument(&self, function: &str, argument: &str) -> bool {
        let mut named = self.functions.values().flatten().filter(|known| known.name == function);
        named.any(|known| known.function.inputs.iter().any(|input| input.name == argument))
    }

    /// Decodes a call with every interface that has its function. Data that is not in canonical encoding (overlapping
    /// arguments, trailing bytes, dirty high bits) decodes to nothing, because a contract may read it differently.
    pub fn decode(&self, contract: Address, data: &[u8]) -> Vec<DecodedCall> {
        if data.len() > MAX_DECODED_BYTES {
            return Vec::new();
        }
        let Some((selector, arguments)) = data.split_first_chunk::<4>() else { return Vec::new() };
        let Some(known) = self.functions.get(&Selector::from(*selector)) else { return Vec::new() };
        known.iter().filter_map(|known| known.decode(contract, data, arguments)).collect()
    }
}

impl KnownFunction {
    fn decode(&self, contract: Address, data: &[u8], arguments: &[u8]) -> Option<DecodedCall> {
        if self.contracts.as_ref().is_some_and(|contracts| !contracts.contains(&contract)) {
            return None;
        }
        // Checked before decoding: offsets that point to shared data could expand to gigabytes.
        if !layout::is_canonical(&self.types, arguments) {
            return None;
        }
        let values = self.function.abi_decode_input(arguments).ok()?;
        let is_canonical = values.iter().zip(&self.types).all(|(value, kind)| kind.matches(value))
            && self.function.abi_encode_input(&values).is_ok_and(|encoded| encoded == data);
        if !is_canonical {
            return None;
        }
        let arguments = self.function.inputs.iter().zip(values).map(|(input, value)| DecodedArgument {
            name: input.name.clone(),
            kind: input.selector_type().into_owned(),
            value,
        });
        Some(DecodedCall {
            name: self.name.clone(),
            signature: self.function.signature(),
            arguments: arguments.collect(),
        })
    }
}

fn depth(kind: &DynSolType) -> usize {
    match kind {
        DynSolType::Array(inner) | DynSolType::FixedArray(inner, _) => 1 + depth(inner),
        DynSolType::Tuple(members) => 1 + members.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Maximum number of list items that are shown.
const MAX_SHOWN_ITEMS: usize = 16;

fn shown_value(value: &DynSolValue, level: usize) -> String {
    match value {
        DynSolValue::Bool(flag) => flag.to_string(),
        DynSolValue::Int(number, _) => number.to_string(),
        DynSolValue::Uint(number, _) => number.to_string(),
        DynSolValue::Address(address) => address.to_checksum(None),
        DynSolValue::Function(function) => hex::encode_prefixed(function),
        DynSolValue::FixedBytes(word, length) => hex::encode_prefixed(&word[..(*length).min(32)]),
        DynSolValue::Bytes(bytes) => shown_bytes(bytes),
        DynSolValue::String(text) => format!("\"{text}\""),
        DynSolValue::Array(items) | DynSolValue::FixedArray(items) | DynSolValue::Tuple(items) => {
            if level > MAX_TYPE_DEPTH {
                return "…".to_owned();
            }
            let shown: Vec<String> =
                items.iter().take(MAX_SHOWN_ITEMS).map(|item| shown_value(item, level + 1)).collect();
            let rest = items.len().saturating_sub(MAX_SHOWN_ITEMS);
            let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
            format!("[{}{rest}]", shown.join(", "))
        }
        DynSolValue::CustomStruct { .. } => "…".to_owned(),
    }
}

/// Number of bytes shown of a longer byte string.
pub(crate) const MAX_SHOWN_BYTES: usize = 128;

/// Formats bytes for a person: all of them, or the first [`MAX_SHOWN_BYTES`] and the length.
pub(crate) fn shown_bytes(bytes: &[u8]) -> String {
    match bytes.get(..MAX_SHOWN_BYTES) {
        Some(first) if bytes.len() > MAX_SHOWN_BYTES => {
            format!("{}… ({} bytes)", hex::encode_prefixed(first), bytes.len())
        }
        _ => hex::encode_prefixed(bytes),
    }
}
