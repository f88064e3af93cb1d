//! Typed data: by hash on Model One, by structure on other models (`docs/spec/device.md 6.8`).

use alloy_primitives::{Address, B256, keccak256};
use tenon_device_framing::Message;
use tenon_proto::later::ethereum_typed_data_struct_ack::{EthereumDataType, EthereumFieldType, EthereumStructMember};
use tenon_proto::later::{
    EthereumSignTypedData, EthereumSignTypedHash, EthereumTypedDataSignature, EthereumTypedDataStructAck,
    EthereumTypedDataStructRequest, EthereumTypedDataValueAck, EthereumTypedDataValueRequest,
};
use tenon_proto::{WireMessage as _, decode};

use crate::operations::check_path;
use crate::{
    DerivationPath, DeviceError, DeviceInfo, MemberType, Operation, Outgoing, Progress, Signature, TypedData,
    Unsupported, Value, check,
};

/// Maximum number of the device's queries about one request. Each one takes a round trip.
const MAX_QUERIES: u32 = 10_000;

/// The hash that is signed for typed data.
fn signing_hash(domain_separator: B256, message_hash: Option<B256>) -> B256 {
    let message = message_hash.as_ref().map_or(&[][..], |hash| hash.as_slice());
    keccak256([&[0x19, 0x01], domain_separator.as_slice(), message].concat())
}

fn read_signature(message: &Message, hash: B256, account: Address) -> Result<Signature, DeviceError> {
    let answer: EthereumTypedDataSignature = decode(message.id, &message.body)?;
    if answer.signature().is_empty() {
        return Err(DeviceError::LacksSignature);
    }
    let address = check::address(&[], answer.address())?;
    check::signature_of_65(answer.signature(), Some(address), hash, account)
}

/// Requests the signature of typed data by its hashes. The device shows only the hashes.
#[derive(Clone, Debug)]
pub struct SignTypedHash {
    path: DerivationPath,
    account: Address,
    domain_separator: B256,
    message_hash: Option<B256>,
}

impl SignTypedHash {
    /// Creates a request to sign with `account`, which is at `path`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device can't sign it.
    pub fn new(
        info: &DeviceInfo,
        path: DerivationPath,
        account: Address,
        domain_separator: B256,
        message_hash: Option<B256>,
    ) -> Result<Self, DeviceError> {
        check_path(&path)?;
        if !info.is_model_one || !info.has_recent_firmware() {
            return Err(Unsupported::TypedData.into());
        }
        Ok(Self { path, account, domain_separator, message_hash })
    }
}

impl Operation for SignTypedHash {
    type Output = Signature;

    fn request(&mut self) -> Outgoing {
        Outgoing::new(&EthereumSignTypedHash {
            address_n: self.path.elements().to_vec(),
            domain_separator_hash: Some(self.domain_separator.to_vec()),
            message_hash: self.message_hash.map(|hash| hash.to_vec()),
        })
    }

    fn expected(&self) -> &'static [u16] {
        &[EthereumTypedDataSignature::ID]
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Signature>, DeviceError> {
        let hash = signing_hash(self.domain_separator, self.message_hash);
        read_signature(message, hash, self.account).map(Progress::Done)
    }
}

/// Requests the signature of typed data by its structure. The device queries, shows and hashes the data itself.
#[derive(Clone, Debug)]
pub struct SignTypedData {
    path: DerivationPath,
    account: Address,
    data: TypedData,
    queries: u32,
}

impl SignTypedData {
    /// Creates a request to sign with `account`, which is at `path`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device can't sign it.
    pub fn new(
        info: &DeviceInfo,
        path: DerivationPath,
        account: Address,
        data: TypedData,
    ) -> Result<Self, DeviceError> {
        check_path(&path)?;
        if info.is_model_one || !info.has_recent_firmware() {
            return Err(Unsupported::TypedData.into());
        }
        Ok(Self { path, account, data, queries: 0 })
    }

    fn structure(&self, name: &str) -> Option<Outgoing> {
        let members = self.data.structures.get(name)?;
        let member = |member: &crate::Member| {
            let kind = self.field_type(&member.kind)?;
            Some(EthereumStructMember { r#type: Some(kind), name: Some(member.name.clone()) })
        };
        let members: Option<Vec<_>> = members.iter().map(member).collect();
        Some(Outgoing::new(&EthereumTypedDataStructAck { members: members? }))
    }

    /// Encodes a type for the device.
    fn field_type(&self, kind: &MemberType) -> Option<EthereumFieldType> {
        let (data_type, size) = match kind {
            MemberType::Unsigned(size) => (EthereumDataType::Uint, Some(*size)),
            MemberType::Signed(size) => (EthereumDataType::Int, Some(*size)),
            MemberType::Bytes(size) => (EthereumDataType::Bytes, *size),
            MemberType::Text => (EthereumDataType::String, None),
            MemberType::Bool => (EthereumDataType::Bool, None),
            MemberType::Address => (EthereumDataType::Address, None),
            MemberType::Array(_, size) => (EthereumDataType::Array, *size),
            MemberType::Structure(name) => {
                let members = self.data.structures.get(name)?.len();
                (EthereumDataType::Struct, u32::try_from(members).ok())
            }
        };
        let entry_type = match kind {
            MemberType::Array(entry, _) => Some(Box::new(self.field_type(entry)?)),
            _ => None,
        };
        let struct_name = match kind {
            MemberType::Structure(name) => Some(name.clone()),
            _ => None,
        };
        Some(EthereumFieldType { data_type: Some(data_type as i32), size, entry_type, struct_name })
    }

    /// Encodes a value, or the number of items of an array.
    fn value(&self, path: &[u32]) -> Option<Outgoing> {
        let value = match self.data.value(path)? {
            Value::Plain(bytes) => bytes.clone(),
            Value::Parts(parts) => u16::try_from(parts.len()).ok()?.to_be_bytes().to_vec(),
        };
        Some(Outgoing::new(&EthereumTypedDataValueAck { value: Some(value) }))
    }
}

impl Operation for SignTypedData {
    type Output = Signature;

    fn request(&mut self) -> Outgoing {
        self.queries = 0;
        Outgoing::new(&EthereumSignTypedData {
            address_n: self.path.elements().to_vec(),
            primary_type: Some(self.data.primary_type.clone()),
            metamask_v4_compat: Some(true),
        })
    }

    fn expected(&self) -> &'static [u16] {
        &[EthereumTypedDataStructRequest::ID, EthereumTypedDataValueRequest::ID, EthereumTypedDataSignature::ID]
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Signature>, DeviceError> {
        self.queries += 1;
        let answer = match message.id {
            EthereumTypedDataSignature::ID => {
                let hash = signing_hash(self.data.domain_separator, self.data.message_hash);
                return read_signature(message, hash, self.account).map(Progress::Done);
            }
            _ if self.queries > MAX_QUERIES => None,
            EthereumTypedDataStructRequest::ID => {
                let request: EthereumTypedDataStructRequest = decode(message.id, &message.body)?;
                self.structure(request.name())
            }
            _ => {
                let request: EthereumTypedDataValueRequest = decode(message.id, &message.body)?;
                self.value(&request.member_path)
            }
        };
        answer.map(Progress::Send).ok_or(DeviceError::TypedDataRequest)
    }
}
