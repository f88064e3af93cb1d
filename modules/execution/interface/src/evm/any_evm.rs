//! A block's EVM without the type of its inspector, so that a chain family's rules are compiled once and can be called
//! through a trait object. It costs two indirect calls per frame, and none per instruction.

use revm::{
    Inspector,
    context::{ContextTr, FrameStack, JournalTr},
    handler::{
        EthFrame, EvmTr, FrameInitOrResult, FrameResult, FrameTr,
        evm::{ContextDbError, FrameInitResult},
        instructions::EthInstructions,
    },
    inspector::InspectorEvmTr,
    interpreter::{interpreter::EthInterpreter, interpreter_action::FrameInit},
    state::EvmState,
};

use super::{block_evm::BlockEvm, context::BlockContext, precompiles::Precompiles};

/// A frame of a [`BlockEvm`].
type Frame = EthFrame<EthInterpreter>;
/// The instructions of a [`BlockEvm`].
type Instructions = EthInstructions<EthInterpreter, BlockContext>;
type FrameError = ContextDbError<BlockContext>;

/// The parts of an EVM that a handler needs.
trait Frames {
    fn parts(&self) -> (&BlockContext, &Instructions, &Precompiles, &FrameStack<Frame>);
    fn parts_mut(&mut self) -> (&mut BlockContext, &mut Instructions, &mut Precompiles, &mut FrameStack<Frame>);
    fn begin(&mut self, frame: FrameInit) -> Result<FrameInitResult<'_, Frame>, FrameError>;
    fn run(&mut self) -> Result<FrameInitOrResult<Frame>, FrameError>;
    fn give_back(&mut self, result: FrameResult) -> Result<Option<FrameResult>, FrameError>;
}

/// Runs frames without the inspector.
impl<I> Frames for BlockEvm<I> {
    fn parts(&self) -> (&BlockContext, &Instructions, &Precompiles, &FrameStack<Frame>) {
        self.all()
    }

    fn parts_mut(&mut self) -> (&mut BlockContext, &mut Instructions, &mut Precompiles, &mut FrameStack<Frame>) {
        self.all_mut()
    }

    fn begin(&mut self, frame: FrameInit) -> Result<FrameInitResult<'_, Frame>, FrameError> {
        self.frame_init(frame)
    }

    fn run(&mut self) -> Result<FrameInitOrResult<Frame>, FrameError> {
        self.frame_run()
    }

    fn give_back(&mut self, result: FrameResult) -> Result<Option<FrameResult>, FrameError> {
        self.frame_return_result(result)
    }
}

/// Runs frames under the inspector.
#[repr(transparent)]
struct Inspected<'a, I>(&'a mut BlockEvm<I>);

impl<I: Inspector<BlockContext, EthInterpreter>> Frames for Inspected<'_, I> {
    fn parts(&self) -> (&BlockContext, &Instructions, &Precompiles, &FrameStack<Frame>) {
        self.0.all()
    }

    fn parts_mut(&mut self) -> (&mut BlockContext, &mut Instructions, &mut Precompiles, &mut FrameStack<Frame>) {
        self.0.all_mut()
    }

    fn begin(&mut self, frame: FrameInit) -> Result<FrameInitResult<'_, Frame>, FrameError> {
        self.0.inspect_frame_init(frame)
    }

    fn run(&mut self) -> Result<FrameInitOrResult<Frame>, FrameError> {
        self.0.inspect_frame_run()
    }

    fn give_back(&mut self, result: FrameResult) -> Result<Option<FrameResult>, FrameError> {
        self.0.frame_return_result(result)
    }
}

/// A [`BlockEvm`] with any type of inspector, on which handlers run. Frames run under the inspector only if
/// [`AnyEvm::with_inspected`] made it.
pub struct AnyEvm<'a>(&'a mut dyn Frames);

impl<'a> AnyEvm<'a> {
    /// The EVM without its inspector.
    pub fn plain<I>(evm: &'a mut BlockEvm<I>) -> Self {
        Self(evm)
    }

    /// Calls `run` with the EVM under its inspector.
    pub fn with_inspected<I: Inspector<BlockContext, EthInterpreter>, T>(
        evm: &mut BlockEvm<I>,
        run: impl FnOnce(&mut AnyEvm<'_>) -> T,
    ) -> T {
        run(&mut AnyEvm(&mut Inspected(evm)))
    }

    /// The context of instructions.
    pub fn context(&mut self) -> &mut BlockContext {
        self.0.parts_mut().0
    }

    /// The precompiled contracts.
    pub fn precompiled(&mut self) -> &mut Precompiles {
        self.0.parts_mut().2
    }

    /// Ends a transaction: takes its changes from the journal.
    pub fn take_changes(&mut self) -> EvmState {
        self.context().journal_mut().finalize()
    }
}

impl EvmTr for AnyEvm<'_> {
    type Context = BlockContext;
    type Instructions = Instructions;
    type Precompiles = Precompiles;
    type Frame = Frame;

    fn all(&self) -> (&BlockContext, &Instructions, &Precompiles, &FrameStack<Frame>) {
        self.0.parts()
    }

    fn all_mut(&mut self) -> (&mut BlockContext, &mut Instructions, &mut Precompiles, &mut FrameStack<Frame>) {
        self.0.parts_mut()
    }

    fn frame_init(&mut self, frame: <Frame as FrameTr>::FrameInit) -> Result<FrameInitResult<'_, Frame>, FrameError> {
        self.0.begin(frame)
    }

    fn frame_run(&mut self) -> Result<FrameInitOrResult<Frame>, FrameError> {
        self.0.run()
    }

    fn frame_return_result(&mut self, result: FrameResult) -> Result<Option<FrameResult>, FrameError> {
        self.0.give_back(result)
    }
}
