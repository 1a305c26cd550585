//! Panics of all threads: a panic in a task of the node under attack is as bad as one of the target
//! itself.
//!
//! The product's own hook ends the process at every panic but those that count as damage
//! (`store::panics`); so does this one count every other.

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static IS_RECORDING: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, Vec<String>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body`, and returns its result with the panics of all threads meanwhile, which are not
/// printed.
pub fn record<T>(body: impl FnOnce() -> T) -> (T, Vec<String>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match IS_RECORDING.load(Ordering::SeqCst) {
            _ if store::panics::is_caught() => {}
            true => lock().push(describe(info)),
            false => print(info),
        }));
    });
    lock().clear();
    IS_RECORDING.store(true, Ordering::SeqCst);
    let result = body();
    IS_RECORDING.store(false, Ordering::SeqCst);
    (result, std::mem::take(&mut *lock()))
}

/// Ends the process at every panic from now on, so that libFuzzer keeps the input.
pub fn abort_at_any() {
    std::panic::set_hook(Box::new(|info| {
        if !store::panics::is_caught() {
            eprintln!("{}", describe(info));
            std::process::abort();
        }
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    format!("{place}: {}", text.unwrap_or("a panic without words"))
}
