//! The native functions on which `prelude.js` builds its objects.

use std::{cell::RefCell, fmt::LowerHex, rc::Rc};

use alloy_primitives::{Address, B256, Bytes, U256};
use rquickjs::{Ctx, Exception, Function, IntoJs, Object, Result, TypedArray, Value, context::EvalOptions};
use tenon_api::WholeBalance;

use crate::{
    address::{from_hex, to_address, to_word},
    interface::ScriptInterface,
    link::Link,
    protocol::{AccountQuery, Reply, Request, RunFacts},
    session::Session,
};

/// Peter Olson's big-integer 1.6.52 (Unlicense), the library that go-ethereum gives to scripts.
const BIG_INTEGER: &str = include_str!("../third-party/BigInteger.js");

/// Maximum number of zero bytes that go-ethereum appends to memory that is too short.
const MAX_PADDING: f64 = 1_048_576.0;

/// State shared by the functions.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) session: Rc<RefCell<Session>>,
    /// The socket to the node. Borrowed only while a message is sent or received.
    pub(crate) link: Rc<RefCell<Link>>,
    pub(crate) precompiles: Rc<Vec<Address>>,
    pub(crate) interface: ScriptInterface,
}

/// Options of every evaluation: not strict, as in the engines of the other clients.
pub(crate) fn options() -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options
}

type Buffer<'js> = TypedArray<'js, u8>;

fn buffer<'js>(ctx: Ctx<'js>, bytes: &[u8]) -> Result<Buffer<'js>> {
    // A copy in the script's heap, which has a limit.
    TypedArray::new_copy(ctx, bytes)
}

/// Decodes bytes from the prelude: a text with one character per byte. The engine gives the bytes of an array only to
/// unsafe code, because a script could detach them meanwhile.
fn bytes(packed: &str) -> Vec<u8> {
    packed.chars().map(|character| u8::try_from(character).unwrap_or_default()).collect()
}

#[allow(clippy::cast_precision_loss, reason = "numbers of scripts are doubles")]
const fn number(value: u64) -> f64 {
    value as f64
}

fn hex(value: impl LowerHex) -> String {
    format!("{value:#x}")
}

/// The object `host` of the prelude.
pub(crate) fn host<'js>(ctx: &Ctx<'js>, shared: &Shared) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("boundsSlices", shared.interface.bounds_slices)?;
    add_helpers(ctx, &host, shared)?;
    add_step(ctx, &host, shared)?;
    add_stack_and_memory(ctx, &host, shared)?;
    add_accounts(ctx, &host, shared)?;
    add_frames(ctx, &host, shared)?;
    Ok(host)
}

fn add_helpers<'js>(ctx: &Ctx<'js>, host: &Object<'js>, shared: &Shared) -> Result<()> {
    let load = |ctx: Ctx<'js>| -> Result<Value<'js>> {
        ctx.eval_with_options(format!("(function () {{ {BIG_INTEGER}\nreturn bigInt; }})()"), options())
    };
    host.set("loadBigInteger", Function::new(ctx.clone(), load)?)?;
    let read = |ctx: Ctx<'js>, text: String| buffer(ctx, &from_hex(&text));
    host.set("fromHex", Function::new(ctx.clone(), read)?)?;
    let word = |ctx: Ctx<'js>, value: String| buffer(ctx, to_word(&bytes(&value)).as_slice());
    host.set("toWord", Function::new(ctx.clone(), word)?)?;
    let address = |ctx: Ctx<'js>, value: String| buffer(ctx, to_address(&bytes(&value)).as_slice());
    host.set("toAddress", Function::new(ctx.clone(), address)?)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as Rust defines it")]
    let contract = |ctx: Ctx<'js>, from: String, nonce: f64| {
        buffer(ctx, to_address(&bytes(&from)).create(nonce as u64).as_slice())
    };
    host.set("toContract", Function::new(ctx.clone(), contract)?)?;
    let contract2 = |ctx: Ctx<'js>, from: String, salt: String, code: String| {
        let salt = to_word(&bytes(&salt));
        buffer(ctx, to_address(&bytes(&from)).create2_from_code(salt, bytes(&code)).as_slice())
    };
    host.set("toContract2", Function::new(ctx.clone(), contract2)?)?;
    let precompiles = Rc::clone(&shared.precompiles);
    let is_precompiled = move |value: String| precompiles.contains(&to_address(&bytes(&value)));
    host.set("isPrecompiled", Function::new(ctx.clone(), is_precompiled)?)
}

/// The error of a memory access out of bounds, with go-ethereum's text.
fn out_of_bounds(ctx: &Ctx<'_>, available: usize, offset: f64, size: f64) -> rquickjs::Error {
    let text = format!("tracer accessed out of bound memory: available {available}, offset {offset}, size {size}");
    Exception::throw_message(ctx, &text)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturates")]
fn range(bytes: &[u8], start: f64, end: f64) -> Option<&[u8]> {
    if start < 0.0 || end < start {
        return None;
    }
    bytes.get(start as usize..end as usize)
}

/// Adds a function without parameters that reads the session.
fn add<'js, T: IntoJs<'js> + 'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    shared: &Shared,
    name: &str,
    read: fn(&Session) -> T,
) -> Result<()> {
    let session = Rc::clone(&shared.session);
    host.set(name, Function::new(ctx.clone(), move || read(&session.borrow()))?)
}

/// Adds a function without parameters that reads bytes of the session.
fn add_bytes<'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    shared: &Shared,
    name: &str,
    read: fn(&Session) -> Bytes,
) -> Result<()> {
    let session = Rc::clone(&shared.session);
    let read = move |ctx: Ctx<'js>| {
        let bytes = read(&session.borrow());
        buffer(ctx, &bytes)
    };
    host.set(name, Function::new(ctx.clone(), read)?)
}

fn of_address(address: Address) -> Bytes {
    Bytes::copy_from_slice(address.as_slice())
}

fn add_step<'js>(ctx: &Ctx<'js>, host: &Object<'js>, shared: &Shared) -> Result<()> {
    add(ctx, host, shared, "opcode", |session| session.step.opcode)?;
    add(ctx, host, shared, "opcodeName", |session| session.step.name.clone())?;
    add(ctx, host, shared, "pc", |session| number(session.step.pc))?;
    add(ctx, host, shared, "gas", |session| number(session.step.gas))?;
    add(ctx, host, shared, "cost", |session| number(session.step.cost))?;
    add(ctx, host, shared, "depth", |session| session.step.depth)?;
    add(ctx, host, shared, "refund", |session| number(session.step.refund))?;
    add(ctx, host, shared, "error", |session| session.error.clone())?;
    add_bytes(ctx, host, shared, "caller", |session| of_address(session.contract().caller))?;
    add_bytes(ctx, host, shared, "address", |session| of_address(session.contract().address))?;
    add_bytes(ctx, host, shared, "input", Session::input)?;
    add(ctx, host, shared, "value", |session| hex(session.contract().value))
}

fn add_stack_and_memory<'js>(ctx: &Ctx<'js>, host: &Object<'js>, shared: &Shared) -> Result<()> {
    let ScriptInterface { bounds_stack, bounds_memory_words, pads_memory_slices, .. } = shared.interface;
    add(ctx, host, shared, "stackLength", |session| number(session.stack().len() as u64))?;
    add(ctx, host, shared, "memoryLength", |session| number(session.memory().len() as u64))?;
    let session = Rc::clone(&shared.session);
    let item = move |ctx: Ctx<'js>, index: f64| {
        let session = session.borrow();
        let stack = session.stack();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturates")]
        let item = (index >= 0.0).then(|| stack.iter().rev().nth(index as usize)).flatten();
        match item {
            Some(item) => Ok(hex(*item)),
            None if !bounds_stack => Ok(hex(U256::ZERO)),
            None => {
                let size = stack.len();
                let text = format!("tracer accessed out of bound stack: size {size}, index {index}");
                Err(Exception::throw_message(&ctx, &text))
            }
        }
    };
    host.set("stackItem", Function::new(ctx.clone(), item)?)?;
    let session = Rc::clone(&shared.session);
    let part = move |ctx: Ctx<'js>, start: f64, end: f64| {
        memory_part(ctx, pads_memory_slices, session.borrow().memory(), start, end)
    };
    host.set("memorySlice", Function::new(ctx.clone(), part)?)?;
    let session = Rc::clone(&shared.session);
    let word = move |ctx: Ctx<'js>, offset: f64| {
        let session = session.borrow();
        match range(session.memory(), offset, offset + 32.0) {
            Some(word) => Ok(hex(U256::from_be_slice(word))),
            None if !bounds_memory_words => Ok(hex(U256::ZERO)),
            None => Err(out_of_bounds(&ctx, session.memory().len(), offset, 32.0)),
        }
    };
    host.set("memoryWord", Function::new(ctx.clone(), word)?)
}

/// A part of memory, with zeros appended if it is too short and the client does so.
fn memory_part<'js>(ctx: Ctx<'js>, pads: bool, memory: &[u8], start: f64, end: f64) -> Result<Buffer<'js>> {
    if let Some(part) = range(memory, start, end) {
        return buffer(ctx, part);
    }
    if !pads || start == end {
        return buffer(ctx, &[]);
    }
    if start < 0.0 || end < start {
        let text = format!("tracer accessed out of bound memory: offset {start}, end {end}");
        return Err(Exception::throw_message(&ctx, &text));
    }
    let missing = end - number(memory.len() as u64);
    if missing > MAX_PADDING {
        let text = format!("reached limit for padding memory slice: {missing}");
        return Err(Exception::throw_message(&ctx, &text));
    }
    let present = range(memory, start, number(memory.len() as u64)).unwrap_or_default();
    let mut padded = present.to_vec();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the limit for padding")]
    padded.resize(((end - start) as usize).min(present.len() + MAX_PADDING as usize), 0);
    buffer(ctx, &padded)
}

fn add_accounts<'js>(ctx: &Ctx<'js>, host: &Object<'js>, shared: &Shared) -> Result<()> {
    let own = shared.clone();
    let balance = move |ctx: Ctx<'js>, of: String| {
        let answer = own.ask(&ctx, AccountQuery::Balance, &bytes(&of), &[]);
        answer.map(|answer| hex(WholeBalance::try_from_be_slice(&answer).unwrap_or_default()))
    };
    host.set("balance", Function::new(ctx.clone(), balance)?)?;
    let own = shared.clone();
    let nonce = move |ctx: Ctx<'js>, of: String| {
        let answer = own.ask(&ctx, AccountQuery::Nonce, &bytes(&of), &[]);
        answer.map(|answer| number(U256::from_be_bytes(to_word(&answer).0).saturating_to()))
    };
    host.set("nonce", Function::new(ctx.clone(), nonce)?)?;
    let own = shared.clone();
    let code = move |ctx: Ctx<'js>, of: String| {
        let code = own.ask(&ctx, AccountQuery::Code, &bytes(&of), &[])?;
        buffer(ctx, &code)
    };
    host.set("code", Function::new(ctx.clone(), code)?)?;
    let own = shared.clone();
    let slot = move |ctx: Ctx<'js>, of: String, slot: String| {
        let value = own.ask(&ctx, AccountQuery::Slot, &bytes(&of), &bytes(&slot))?;
        buffer(ctx, to_word(&value).as_slice())
    };
    host.set("slot", Function::new(ctx.clone(), slot)?)?;
    let own = shared.clone();
    let exists = move |ctx: Ctx<'js>, of: String| {
        own.ask(&ctx, AccountQuery::Exists, &bytes(&of), &[]).map(|answer| answer.iter().any(|byte| *byte != 0))
    };
    host.set("exists", Function::new(ctx.clone(), exists)?)
}

impl Shared {
    /// Sends a question about an account to the node.
    fn ask(&self, ctx: &Ctx<'_>, query: AccountQuery, address: &[u8], slot: &[u8]) -> Result<Bytes> {
        let slot: B256 = to_word(slot);
        let query = Reply::Query { query, address: to_address(address), slot };
        let mut link = self.link.borrow_mut();
        let answer = link.send(&query).and_then(|()| link.receive::<Request>());
        match answer {
            Ok(Request::Answer(Some(answer))) => Ok(answer),
            _ => Err(Exception::throw_message(ctx, "the state cannot be read")),
        }
    }
}

fn add_frames<'js>(ctx: &Ctx<'js>, host: &Object<'js>, shared: &Shared) -> Result<()> {
    add(ctx, host, shared, "frameType", |session| session.frame.kind.clone())?;
    add_bytes(ctx, host, shared, "frameFrom", |session| of_address(session.frame.from))?;
    add_bytes(ctx, host, shared, "frameTo", |session| of_address(session.frame.to))?;
    add_bytes(ctx, host, shared, "frameInput", |session| session.frame.input.clone())?;
    add(ctx, host, shared, "frameGas", |session| number(session.frame.gas))?;
    add(ctx, host, shared, "frameValue", |session| session.frame.value.map(hex))?;
    add(ctx, host, shared, "resultGasUsed", |session| number(session.result.gas_used))?;
    add_bytes(ctx, host, shared, "resultOutput", |session| session.result.output.clone())?;
    add(ctx, host, shared, "resultError", |session| session.result.error.clone())
}

/// The object `ctx` of `result`. Amounts in wei are hexadecimal texts, which the prelude converts to big integers.
pub(crate) fn run_object<'js>(ctx: &Ctx<'js>, run: &RunFacts) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    let bytes = |bytes: &[u8]| buffer(ctx.clone(), bytes);
    if let Some(frame) = &run.frame {
        object.set("type", frame.kind.as_str())?;
        object.set("from", bytes(frame.from.as_slice())?)?;
        object.set("to", bytes(frame.to.as_slice())?)?;
        object.set("input", bytes(&frame.input)?)?;
        object.set("gas", number(frame.gas))?;
        object.set("value", hex(frame.value.unwrap_or_default()))?;
    }
    object.set("gasPrice", hex(run.gas_price))?;
    object.set("block", number(run.block))?;
    object.set("intrinsicGas", number(run.intrinsic_gas))?;
    object.set("output", bytes(&run.end.output)?)?;
    object.set("gasUsed", number(run.end.gas_used))?;
    object.set("time", run.time.as_str())?;
    if let Some(error) = &run.end.error {
        object.set("error", error.as_str())?;
    }
    if let Some(hash) = run.block_hash {
        object.set("blockHash", bytes(hash.as_slice())?)?;
    }
    if let Some(index) = run.index {
        object.set("txIndex", number(index))?;
    }
    if let Some(hash) = run.hash {
        object.set("txHash", bytes(hash.as_slice())?)?;
    }
    Ok(object)
}
