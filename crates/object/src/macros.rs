//! `value!`: a [`Value`](crate::Value) written as JSON.

/// Builds a [`Value`](crate::Value) from JSON-like syntax; any expression that is `Into<Value>` can stand for a value.
#[macro_export]
macro_rules! value {
    (null) => { $crate::Value::Null };
    ([ $($item:tt),* $(,)? ]) => { $crate::Value::List(vec![ $( $crate::value!($item) ),* ]) };
    ({ $($key:literal : $value:tt),* $(,)? }) => {{
        #[allow(unused_mut)]
        let mut map = $crate::Map::new();
        $( map.insert($key, $crate::value!($value)); )*
        $crate::Value::Map(map)
    }};
    ($other:expr) => { $crate::Value::from($other) };
}

/// A static slice of [`Str`](crate::Str)s that cost nothing to clone.
#[macro_export]
macro_rules! strs {
    ($($text:literal),* $(,)?) => {
        const { &[$($crate::Str::const_new($text)),*] }
    };
}
