//! Signing of typed data: by hash on Model One, by structure on Model T (`docs/spec/device.md 6.8`).

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::keccak256;
use futures_util::future::BoxFuture;
use tenon_device_framing::Message;
use tenon_proto::later::ethereum_typed_data_struct_ack::{EthereumDataType, EthereumFieldType, EthereumStructMember};
use tenon_proto::later::{
    EthereumSignTypedData, EthereumSignTypedHash, EthereumTypedDataSignature, EthereumTypedDataStructAck,
    EthereumTypedDataStructRequest, EthereumTypedDataValueAck, EthereumTypedDataValueRequest,
};

use crate::device::{Device, FlowResult, Stop, code};
use crate::keys::{Node, checksummed};
use crate::prompts::button;

/// Name of the domain's structure.
const DOMAIN: &str = "EIP712Domain";

/// Maximum number of structures for one signature.
const MAX_STRUCTURES: usize = 64;

/// Maximum nesting of values.
const MAX_DEPTH: usize = 16;

type Structures = BTreeMap<String, Vec<EthereumStructMember>>;

const INVALID: Stop = Stop::Failure(code::DATA_ERROR, "Invalid typed data");

impl Device {
    pub(crate) async fn sign_typed_hash(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumSignTypedHash = self.read(message)?;
        let is_hash = |hash: &[u8]| hash.len() == 32;
        if !is_hash(request.domain_separator_hash()) || !request.message_hash.as_deref().is_none_or(is_hash) {
            return Err(Stop::Failure(code::DATA_ERROR, "Invalid hash length"));
        }
        let node = self.key(&request.address_n).await?;
        self.confirm(button::OTHER).await?;
        if request.message_hash.is_some() {
            self.confirm(button::OTHER).await?;
        }
        let hashes = [request.domain_separator_hash(), request.message_hash()].concat();
        self.answer_typed(&node, &hashes, &request.address_n).await;
        Ok(())
    }

    pub(crate) async fn sign_typed_data(&mut self, message: &Message) -> FlowResult<()> {
        let request: EthereumSignTypedData = self.read(message)?;
        let node = self.key(&request.address_n).await?;
        let primary = request.primary_type().to_owned();
        let mut structures = Structures::new();
        self.collect(DOMAIN.to_owned(), &mut structures).await?;
        self.collect(primary.clone(), &mut structures).await?;
        let mut hashes = self.hash_structure(&structures, DOMAIN, vec![0]).await?.to_vec();
        self.confirm(button::OTHER).await?;
        if primary != DOMAIN {
            hashes.extend(self.hash_structure(&structures, &primary, vec![1]).await?);
            self.confirm(button::OTHER).await?;
        }
        self.answer_typed(&node, &hashes, &request.address_n).await;
        Ok(())
    }

    async fn answer_typed(&mut self, node: &Node, hashes: &[u8], path: &[u32]) {
        let signature = self.make_signature(node, keccak256([&[0x19, 0x01], hashes].concat()).0);
        let address = Some(checksummed(node.address(), path));
        self.send(&EthereumTypedDataSignature { signature: Some(signature.to_bytes()), address }).await;
    }

    /// Requests a structure and all structures that it contains.
    async fn collect(&mut self, name: String, structures: &mut Structures) -> FlowResult<()> {
        let mut wanted = vec![name];
        while let Some(name) = wanted.pop() {
            if structures.contains_key(&name) {
                continue;
            }
            if structures.len() == MAX_STRUCTURES {
                return Err(INVALID);
            }
            self.send(&EthereumTypedDataStructRequest { name: Some(name.clone()) }).await;
            let answer = self.await_answer(466).await?;
            let answer: EthereumTypedDataStructAck = self.read_answer(&answer)?;
            let types = answer.members.iter().filter_map(|member| member.r#type.as_ref());
            wanted.extend(types.filter_map(structure_of).map(str::to_owned));
            structures.insert(name, answer.members);
        }
        Ok(())
    }

    fn hash_structure<'a>(
        &'a mut self,
        structures: &'a Structures,
        name: &'a str,
        path: Vec<u32>,
    ) -> BoxFuture<'a, FlowResult<[u8; 32]>> {
        Box::pin(async move {
            let members = structures.get(name).ok_or(INVALID)?;
            let mut encoded = keccak256(full_type(structures, name)?).to_vec();
            for (index, member) in (0..).zip(members) {
                let kind = member.r#type.as_ref().ok_or(INVALID)?;
                encoded.extend(self.encode_value(structures, kind, [&path[..], &[index]].concat()).await?);
            }
            Ok(keccak256(encoded).0)
        })
    }

    fn encode_value<'a>(
        &'a mut self,
        structures: &'a Structures,
        kind: &'a EthereumFieldType,
        path: Vec<u32>,
    ) -> BoxFuture<'a, FlowResult<[u8; 32]>> {
        Box::pin(async move {
            if path.len() > MAX_DEPTH {
                return Err(INVALID);
            }
            match data_type(kind)? {
                EthereumDataType::Struct => self.hash_structure(structures, kind.struct_name(), path).await,
                EthereumDataType::Array => {
                    let length = self.ask_value(&path).await?;
                    let length = u16::from_be_bytes(length.as_slice().try_into().map_err(|_| INVALID)?);
                    if kind.size.is_some_and(|size| size != u32::from(length)) {
                        return Err(INVALID);
                    }
                    let entry = kind.entry_type.as_deref().ok_or(INVALID)?;
                    let mut encoded = Vec::new();
                    for index in 0..u32::from(length) {
                        encoded.extend(self.encode_value(structures, entry, [&path[..], &[index]].concat()).await?);
                    }
                    Ok(keccak256(encoded).0)
                }
                _ => {
                    let value = self.ask_value(&path).await?;
                    encode_plain(kind, &value)
                }
            }
        })
    }

    async fn ask_value(&mut self, path: &[u32]) -> FlowResult<Vec<u8>> {
        self.send(&EthereumTypedDataValueRequest { member_path: path.to_vec() }).await;
        let answer = self.await_answer(468).await?;
        let answer: EthereumTypedDataValueAck = self.read_answer(&answer)?;
        answer.value.ok_or(INVALID)
    }
}

fn data_type(kind: &EthereumFieldType) -> FlowResult<EthereumDataType> {
    EthereumDataType::try_from(kind.data_type.unwrap_or_default()).map_err(|_| INVALID)
}

/// The structure that a type refers to, directly or as the items of an array.
fn structure_of(mut kind: &EthereumFieldType) -> Option<&str> {
    while let Some(entry) = kind.entry_type.as_deref() {
        kind = entry;
    }
    kind.struct_name.as_deref()
}

fn encode_plain(kind: &EthereumFieldType, value: &[u8]) -> FlowResult<[u8; 32]> {
    let mut encoded = [0; 32];
    let size = kind.size.map(|size| size as usize);
    let kind = data_type(kind)?;
    let wanted = match kind {
        EthereumDataType::Bool => Some(1),
        EthereumDataType::Address => Some(20),
        _ => size,
    };
    if wanted.is_some_and(|wanted| wanted != value.len() || wanted > 32) {
        return Err(INVALID);
    }
    match kind {
        EthereumDataType::String => encoded = keccak256(value).0,
        EthereumDataType::Bytes if size.is_none() => encoded = keccak256(value).0,
        EthereumDataType::Bytes => encoded[..value.len()].copy_from_slice(value),
        _ => {
            let start = 32usize.checked_sub(value.len()).ok_or(INVALID)?;
            if kind == EthereumDataType::Int && value.first().is_some_and(|first| first & 0x80 != 0) {
                encoded = [0xff; 32];
            }
            encoded[start..].copy_from_slice(value);
        }
    }
    Ok(encoded)
}

/// The encoded type by EIP-712: the structure, followed by the structures that it contains, sorted by name.
fn full_type(structures: &Structures, name: &str) -> FlowResult<String> {
    let mut found = BTreeSet::new();
    let mut wanted = vec![name];
    while let Some(next) = wanted.pop() {
        if found.insert(next) {
            let members = structures.get(next).ok_or(INVALID)?;
            wanted.extend(members.iter().filter_map(|member| member.r#type.as_ref()).filter_map(structure_of));
        }
    }
    found.remove(name);
    let mut text = String::new();
    for each in std::iter::once(name).chain(found) {
        let members: FlowResult<Vec<String>> = structures
            .get(each)
            .ok_or(INVALID)?
            .iter()
            .map(|member| Ok(format!("{} {}", type_name(member.r#type.as_ref().ok_or(INVALID)?)?, member.name())))
            .collect();
        text += &format!("{each}({})", members?.join(","));
    }
    Ok(text)
}

fn type_name(kind: &EthereumFieldType) -> FlowResult<String> {
    let bits = kind.size.map(|size| size.saturating_mul(8)).unwrap_or(256);
    Ok(match data_type(kind)? {
        EthereumDataType::Uint => format!("uint{bits}"),
        EthereumDataType::Int => format!("int{bits}"),
        EthereumDataType::Bytes => format!("bytes{}", kind.size.map(|size| size.to_string()).unwrap_or_default()),
        EthereumDataType::String => "string".into(),
        EthereumDataType::Bool => "bool".into(),
        EthereumDataType::Address => "address".into(),
        EthereumDataType::Struct => kind.struct_name().into(),
        EthereumDataType::Array => {
            let entry = type_name(kind.entry_type.as_deref().ok_or(INVALID)?)?;
            format!("{entry}[{}]", kind.size.map(|size| size.to_string()).unwrap_or_default())
        }
    })
}
