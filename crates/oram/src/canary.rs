//! Leaks made on purpose, so that whoever looks for leaks can be shown one.
//!
//! An honest rule of an engine that a canary may break asks the engine's `Canary` for its bound or
//! its order; `ring`, `tao` and `immediate` have one each. In what ships it has no size and gives
//! the honest answer at compile time; nothing of a leak is left in the code. Under the feature
//! `canaries`, which is for tests alone and which `scripts/check-edges.sh` keeps out of the binary,
//! an engine can be told to leak one thing.

/// What is looked for in a binary that must not hold canaries.
#[cfg(feature = "canaries")]
#[used]
static MARKER: [u8; 37] = *b"fogbank: this program can leak (test)";

/// Makes `Leak`, the list of what an engine can leak, and `Canary`, whom its rules ask:
/// - `asks`: questions that are answered with no, but by the canary that leaks what stands beside;
/// - `fn`: others, each with the honest answer and, after `or`, that of any canary. What a canary
///   that leaks remembers stands in its `state`.
macro_rules! canary {
    (
        leaks { $($(#[$of_leak:meta])* $leak:ident,)* }
        state { $($(#[$of_field:meta])* $field:ident: $type:ty,)* }
        asks { $($(#[$of_question:meta])* $question:ident: $asked:ident,)* }
        $($(#[$of_rule:meta])*
        fn $rule:ident($($parameter:tt)*) $(-> $answer:ty)?
            { $($honest:tt)* } or { $($leaky:tt)* })*
    ) => {
        /// What the engine leaks. Each names the rule it breaks.
        #[cfg(feature = "canaries")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Leak { $($(#[$of_leak])* $leak,)* }

        /// Which leak, if any, and what it remembers.
        #[derive(Debug, Default)]
        pub struct Canary {
            #[cfg(feature = "canaries")]
            leak: Option<Leak>,
            $($(#[$of_field])* #[cfg(feature = "canaries")] $field: $type,)*
        }

        #[cfg(feature = "canaries")]
        impl Canary {
            /// Leaks wherever it can.
            pub fn new(leak: Leak) -> Self {
                Self { leak: Some(leak), $($field: Default::default(),)* }
            }

            fn is(&self, leak: Leak) -> bool {
                self.leak == Some(leak)
            }

            $($(#[$of_question])* pub(crate) fn $question(&self) -> bool {
                self.is(Leak::$asked)
            })*

            $($(#[$of_rule])* pub(crate) fn $rule($($parameter)*) $(-> $answer)? { $($leaky)* })*
        }

        #[cfg(not(feature = "canaries"))]
        #[allow(unused_variables, clippy::unused_self)] // the same face as one that leaks
        impl Canary {
            $($(#[$of_question])* #[inline]
            pub(crate) const fn $question(&self) -> bool {
                false
            })*

            $($(#[$of_rule])* #[inline]
            pub(crate) fn $rule($($parameter)*) $(-> $answer)? { $($honest)* })*
        }
    };
}

pub(crate) use canary;
