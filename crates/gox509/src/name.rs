//! [`Name`]: a distinguished name.

use object::asn1;

use crate::der::{Reader, SEQUENCE, SET};

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

/// Whom a certificate is for, or who issued it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// The last one, if there are several; empty if there is none.
    pub common_name: String,
    pub organizations: Vec<String>,
    /// All attributes whose value is a string: the contents of the object identifier, and the value.
    pub attributes: Vec<(Vec<u8>, String)>,
}

impl Name {
    /// Reads a name in a certificate, where every value must be a string that can be read.
    pub(crate) fn read(der: &[u8]) -> Result<Name, String> {
        parse(der, |tag, value| match asn1::string(u32::from(tag), value) {
            Ok(Some(text)) => Ok(Some(text)),
            Ok(None) => Err(format!("unsupported string type: {tag}")),
            Err(error) => Err(error.to_string()),
        })
        .map_err(|wrong| match wrong {
            Wrong::Set => "x509: invalid RDNSequence".to_string(),
            Wrong::Attribute => "x509: invalid RDNSequence: invalid attribute".to_string(),
            Wrong::Type => "x509: invalid RDNSequence: invalid attribute type".to_string(),
            Wrong::Value(None) => "x509: invalid RDNSequence: invalid attribute value".to_string(),
            Wrong::Value(Some(why)) => format!("x509: invalid RDNSequence: invalid attribute value: {why}"),
        })
    }

    /// Reads a name in a certificate request, where values that are no strings count for nothing.
    pub(crate) fn read_of_request(der: &[u8]) -> Result<Name, String> {
        parse(der, |tag, value| asn1::string(u32::from(tag), value).map_err(|error| error.to_string())).map_err(
            |wrong| match wrong {
                Wrong::Value(Some(why)) => format!("asn1: syntax error: {why}"),
                _ => "asn1: structure error: tags don't match".to_string(),
            },
        )
    }

    fn add(&mut self, kind: &[u8], value: String) {
        match kind {
            COMMON_NAME => self.common_name.clone_from(&value),
            ORGANIZATION => self.organizations.push(value.clone()),
            _ => {}
        }
        self.attributes.push((kind.to_vec(), value));
    }
}

enum Wrong {
    Set,
    Attribute,
    Type,
    Value(Option<String>),
}

fn parse(der: &[u8], value: impl Fn(u8, &[u8]) -> Result<Option<String>, String>) -> Result<Name, Wrong> {
    let mut name = Name::default();
    let mut sets = Reader::new(der).take(SEQUENCE).ok_or(Wrong::Set)?;
    while !sets.is_empty() {
        let mut set = sets.take(SET).ok_or(Wrong::Set)?;
        while !set.is_empty() {
            let mut attribute = set.take(SEQUENCE).ok_or(Wrong::Attribute)?;
            let kind = attribute.oid().ok_or(Wrong::Type)?;
            let element = attribute.any().ok_or(Wrong::Value(None))?;
            if let Some(text) = value(element.tag, element.contents).map_err(|why| Wrong::Value(Some(why)))? {
                name.add(kind, text);
            }
        }
    }
    Ok(name)
}
