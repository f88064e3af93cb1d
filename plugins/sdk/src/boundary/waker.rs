//! Wakers, in both directions.

use std::{
    ffi::c_void,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    task::{RawWaker, RawWakerVTable, Waker},
};

use tenon_api::abi::{TenonWaker, TenonWakerVtable};

// ---- our wakers, lent to the other side ----

/// A view of `waker` for the other side, valid during one poll.
pub(super) fn lend(waker: &Waker) -> TenonWaker {
    TenonWaker { data: std::ptr::from_ref(waker).cast(), vtable: &LENT }
}

/// `data` is a `Waker` owned by the caller.
static LENT: TenonWakerVtable =
    TenonWakerVtable { clone: clone_ours, wake: wake_ours_by_ref, wake_by_ref: wake_ours_by_ref, drop: keep_ours };

/// `data` is a boxed `Waker`.
static GIVEN: TenonWakerVtable =
    TenonWakerVtable { clone: clone_ours, wake: wake_ours, wake_by_ref: wake_ours_by_ref, drop: drop_ours };

unsafe extern "C" fn clone_ours(data: *const c_void) -> TenonWaker {
    // SAFETY: in both tables `data` points to a live `Waker`.
    let waker = unsafe { &*data.cast::<Waker>() };
    let copy = catch_unwind(AssertUnwindSafe(|| waker.clone())).unwrap_or_else(|_| Waker::noop().clone());
    TenonWaker { data: Box::into_raw(Box::new(copy)).cast_const().cast(), vtable: &GIVEN }
}

unsafe extern "C" fn wake_ours(data: *const c_void) {
    // SAFETY: `data` came from `Box::into_raw` in `clone_ours` and is freed once.
    let waker = unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) };
    // A panic must not cross the boundary, and `wake` has no way to report it.
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

unsafe extern "C" fn wake_ours_by_ref(data: *const c_void) {
    // SAFETY: in both tables `data` points to a live `Waker`.
    let waker = unsafe { &*data.cast::<Waker>() };
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake_by_ref()));
}

unsafe extern "C" fn keep_ours(_data: *const c_void) {}

unsafe extern "C" fn drop_ours(data: *const c_void) {
    // SAFETY: `data` came from `Box::into_raw` in `clone_ours` and is freed once.
    let waker = unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
}

// ---- the other side's wakers, borrowed for one poll ----

/// Calls `poll` with the other side's waker.
///
/// # Safety
/// `waker` is null or points to a waker that lives and follows the ABI until `poll` returns.
pub(super) unsafe fn with_borrowed<T>(waker: *const TenonWaker, poll: impl FnOnce(&Waker) -> T) -> T {
    // SAFETY: checked for null; the caller guarantees the rest.
    if waker.is_null() || unsafe { (*waker).vtable.is_null() } {
        return poll(Waker::noop());
    }
    // SAFETY: `BORROWED` only reads through the pointer, which lives until `poll` returns; `ManuallyDrop` because the
    // waker is borrowed.
    let borrowed = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(waker.cast(), &BORROWED)) });
    poll(&borrowed)
}

/// `data` is a `TenonWaker` that the other side owns.
static BORROWED: RawWakerVTable =
    RawWakerVTable::new(clone_theirs, wake_theirs_by_ref, wake_theirs_by_ref, keep_theirs);

/// `data` is a boxed `TenonWaker` owned by this side.
static OWNED: RawWakerVTable = RawWakerVTable::new(clone_theirs, wake_theirs, wake_theirs_by_ref, drop_theirs);

fn clone_theirs(data: *const ()) -> RawWaker {
    // SAFETY: in both tables `data` points to a live `TenonWaker` whose table lives as long.
    let copy = unsafe {
        let waker = &*data.cast::<TenonWaker>();
        ((*waker.vtable).clone)(waker.data)
    };
    RawWaker::new(Box::into_raw(Box::new(copy)).cast_const().cast(), &OWNED)
}

fn wake_theirs(data: *const ()) {
    // SAFETY: `data` came from `Box::into_raw` in `clone_theirs` and is freed once.
    unsafe {
        let waker = Box::from_raw(data.cast_mut().cast::<TenonWaker>());
        ((*waker.vtable).wake)(waker.data);
    }
}

fn wake_theirs_by_ref(data: *const ()) {
    // SAFETY: in both tables `data` points to a live `TenonWaker`.
    unsafe {
        let waker = &*data.cast::<TenonWaker>();
        ((*waker.vtable).wake_by_ref)(waker.data);
    }
}

fn keep_theirs(_data: *const ()) {}

fn drop_theirs(data: *const ()) {
    // SAFETY: `data` came from `Box::into_raw` in `clone_theirs` and is freed once.
    unsafe {
        let waker = Box::from_raw(data.cast_mut().cast::<TenonWaker>());
        ((*waker.vtable).drop)(waker.data);
    }
}
