#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz_drivers::hidden_option(data);
});
