//! Encrypted key files, which any program may put into the folder.

use tenon_accounts::keystore::{CostLimits, KeyFile};
use tenon_api::KeyFileProblem;

/// Small, so that a search opens many files.
const LIMITS: CostLimits = CostLimits { memory: 1 << 20, scrypt_work: 1 << 13, pbkdf2_rounds: 100 };

/// An accepted file costs no more than allowed, and yields the key of its stated address.
pub(crate) fn file(input: &[u8]) {
    let file = match KeyFile::parse(input, &LIMITS) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.to_string().len() <= 160, "{error}");
            return;
        }
    };
    assert!(file.memory() <= LIMITS.memory);
    match file.check(b"password") {
        Ok(address) => assert!(file.address().is_none_or(|stated| stated == address)),
        Err(KeyFileProblem::WrongPassword | KeyFileProblem::InvalidKey | KeyFileProblem::OtherAccount { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// Files of every kind with the password `password`.
pub(crate) fn files() -> Vec<Vec<u8>> {
    FILES.iter().map(|file| file.as_bytes().to_vec()).collect()
}

const FILES: [&str; 4] = [
    r#"{"address":"4a62316623ad457f02cdc5d997ded67a383ec569","crypto":{"cipher":"aes-128-ctr","ciphertext":"50f8ec1c2b3cce86b68cc17ff856e6abb76ea653cca6696aaa3a1e37eca8d8fd","cipherparams":{"iv":"6465666768696a6b6c6d6e6f70717273"},"kdf":"scrypt","kdfparams":{"dklen":32,"n":4,"p":1,"r":8,"salt":"0001020304050607"},"mac":"f1624fb75d8f28a89d8f8ebea00f5f090868e6af47632c065bc833b0c4b8efaf"},"id":"3198bc9c-6672-4ab3-9995-4942343ae5b6","version":3}"#,
    r#"{"address":"4a62316623ad457f02cdc5d997ded67a383ec569","crypto":{"cipher":"aes-128-ctr","ciphertext":"d68167b9b62fb73618e3861dcf8df756bb2f000dc622efd4a223302395284792","cipherparams":{"iv":"6465666768696a6b6c6d6e6f70717273"},"kdf":"pbkdf2","kdfparams":{"c":3,"dklen":32,"prf":"hmac-sha256","salt":"0001020304050607"},"mac":"a94c9182a96cef947c7e9e3dec4128d4d4d11a314cc81f752635df10779d794f"},"id":"3198bc9c-6672-4ab3-9995-4942343ae5b6","version":3}"#,
    r#"{"Crypto":{"ciphertext":"77147ea6d03d2dc45f427b9136060e6174c3c10d1fc8f0ab8f8ebd49d72b91c909208ba3cc7875e122a5b5b7ea74fca6","cipherparams":{"iv":"6465666768696a6b6c6d6e6f70717273"},"kdf":"scrypt","kdfparams":{"n":4,"r":8,"p":1,"dklen":32,"salt":"0001020304050607"},"mac":"66641dfdefec7708eee445aa6b3c65e16ac01703f58bf42ea50d2b5816beac64"},"version":"1"}"#,
    r#"{"encseed":"6465666768696a6b6c6d6e6f70717273585b58bebc69a08e872b93b145f5383f56311fa6fcb825f2b47fd3a7481711999b8072f5b6cdcdc3d197dd53eb530f9a","ethaddr":"1ef17fb1575bbb378f7f864708e0b75bf8a14836"}"#,
];
