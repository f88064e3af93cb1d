//! The debug link of debug builds (`docs/spec/device.md 6.12`).

use tenon_device_framing::Message;
use tenon_proto::debug::{DebugLinkDecision, DebugLinkMemory, DebugLinkState};

use crate::device::{Device, DeviceInput, FlowResult, id};

/// Maximum number of bytes of one memory read.
const MAX_MEMORY: u32 = 1024;

impl Device {
    /// Handles a message of the debug link; returns the button press that it contains, if any.
    pub(crate) async fn debug_link(&mut self, message: &Message) -> FlowResult<Option<DeviceInput>> {
        match message.id {
            id::DEBUG_LINK_DECISION => {
                let decision: DebugLinkDecision = self.read(message)?;
                Ok(decision.yes_no.map(DeviceInput::Decided))
            }
            101 => {
                let state = self.debug_state();
                self.send_debug(&state).await;
                Ok(None)
            }
            110 => {
                let request: tenon_proto::debug::DebugLinkMemoryRead = self.read(message)?;
                let mut answer = DebugLinkMemory::default();
                answer.memory = Some(vec![0; request.length().min(MAX_MEMORY) as usize]);
                self.send_debug(&answer).await;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn debug_state(&self) -> DebugLinkState {
        let mut state = DebugLinkState::default();
        state.pin = self.storage.pin.as_ref().map(|pin| pin.to_string());
        let matrix = self.pin_matrix.unwrap_or(*b"XXXXXXXXX");
        state.matrix = Some(matrix.iter().map(|digit| char::from(*digit)).collect());
        state.mnemonic_secret = self.storage.mnemonic.as_ref().map(|words| words.as_bytes().to_vec());
        state.passphrase_protection = Some(self.storage.has_passphrase_protection);
        state
    }
}
