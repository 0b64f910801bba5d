//! JSON literals of the table: defaults are short and our own, so this reads exactly what the generator writes and
//! nothing more. The codec crate holds the real decoder.

use object::{Map, Str, Value};

/// Deeper defaults do not exist.
const MAX_DEPTH: usize = 8;

pub fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(format!("text after the literal: {:?}", reader.rest)) }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("a literal too deep".into());
        }
        match self.rest.as_bytes().first() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Value, String> {
        let end = self.rest.find([',', ']', '}']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => word.parse().map(Value::Int).map_err(|_| format!("not a literal: {word:?}")),
        }
    }

    fn string(&mut self) -> Result<Str, String> {
        let inner = self.rest.strip_prefix('"').ok_or("not a string")?;
        let end = inner.find('"').ok_or("a string without an end")?;
        if inner[..end].contains('\\') {
            return Err("escapes are not read here".into());
        }
        self.rest = &inner[end + 1..];
        Ok(inner[..end].into())
    }

    fn map(&mut self, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        self.take('{')?;
        while !self.skip('}') {
            let key = self.string()?;
            self.take(':')?;
            map.insert(key, self.value(depth + 1)?);
            self.skip(',');
        }
        Ok(Value::Map(map))
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        let mut list = Vec::new();
        self.take('[')?;
        while !self.skip(']') {
            list.push(self.value(depth + 1)?);
            self.skip(',');
        }
        Ok(Value::List(list))
    }

    fn take(&mut self, c: char) -> Result<(), String> {
        if self.skip(c) { Ok(()) } else { Err(format!("expected {c:?} at {:?}", self.rest)) }
    }

    fn skip(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use object::{Value, value};

    use super::parse;

    #[test]
    fn reads_what_the_table_holds() {
        for (text, want) in [
            ("\"TCP\"", value!("TCP")),
            ("-3", value!(-3)),
            ("true", value!(true)),
            ("null", Value::Null),
            ("{\"single\":{}}", value!({"single": {}})),
            ("[\"a\",{\"b\":[1,2]}]", value!(["a", {"b": [1, 2]}])),
        ] {
            assert_eq!(parse(text).unwrap(), want);
        }
    }

    #[test]
    fn refuses_what_is_not_a_literal() {
        for text in ["", "tru", "\"open", "{\"a\"}", "1 2", "[1", "\"a\\n\"", &"[".repeat(100)] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
