//! Tokens to a tree of nodes, for the first document of a stream.

use hashbrown::HashMap;

use super::Problem;
use super::input::Mark;
use super::scanner::{Kind, Scanner, Token};
use crate::MAX_DEPTH;

/// The place of a node in its [`Document`].
pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) struct Node {
    /// Counted from zero.
    pub line: usize,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Scalar {
        text: String,
        /// Resolved, `tag:yaml.org,2002:str`; "" where none was given.
        tag: String,
        /// Not quoted, so that its text may mean something.
        plain: bool,
    },
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
    Alias {
        name: String,
        target: NodeId,
    },
}

/// A parsed document.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub nodes: Vec<Node>,
}

/// Parses the first document; what follows it is not looked at. `None` for a stream without any.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Document, NodeId)>, Problem> {
    let mut parser = YamlParser {
        scanner: Scanner::new(bytes),
        document: Document::default(),
        anchors: HashMap::new(),
        tags: Vec::new(),
    };
    let root = parser.document()?;
    Ok(root.map(|root| (parser.document, root)))
}

struct YamlParser {
    scanner: Scanner,
    document: Document,
    anchors: HashMap<String, NodeId>,
    /// Tag handles and what they stand for.
    tags: Vec<(String, String)>,
}

type Parsed = Result<NodeId, Problem>;

impl YamlParser {
    fn document(&mut self) -> Result<Option<NodeId>, Problem> {
        let root = match self.peek()?.kind {
            Kind::StreamEnd => return Ok(None),
            Kind::Version(..) | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.directives()?;
                let (is_start, mark) = (self.next_is(&Kind::DocumentStart)?, self.mark()?);
                if !is_start {
                    return Err(problem(None, mark, "did not find expected <document start>"));
                }
                self.scanner.skip();
                self.document_content()?
            }
            _ => {
                self.directives()?;
                self.node(Position::Block, 0)?
            }
        };
        // The end of the document has to be seen, though not what comes behind it.
        self.peek()?;
        Ok(Some(root))
    }

    fn document_content(&mut self) -> Parsed {
        let token = self.peek()?;
        match token.kind {
            Kind::Version(..)
            | Kind::TagDirective { .. }
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd => {
                let mark = token.start;
                Ok(self.empty(mark))
            }
            _ => self.node(Position::Block, 0),
        }
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut versioned = false;
        loop {
            let Token { kind, start, .. } = self.peek()?.clone();
            match kind {
                Kind::Version(..) if versioned => {
                    return Err(problem(None, start, "found duplicate %YAML directive"));
                }
                Kind::Version(1, 1) => versioned = true,
                Kind::Version(..) => return Err(problem(None, start, "found incompatible YAML document")),
                Kind::TagDirective { handle, prefix } => {
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(problem(None, start, "found duplicate %TAG directive"));
                    }
                    self.tags.push((handle, prefix));
                }
                _ => break,
            }
            self.scanner.skip();
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle) {
                self.tags.push((handle.into(), prefix.into()));
            }
        }
        Ok(())
    }

    /// One node with its anchor and tag. `depth` is how many collections are open around it.
    fn node(&mut self, position: Position, depth: usize) -> Parsed {
        if depth > MAX_DEPTH {
            return Err(Problem { message: format!("exceeded max depth of {MAX_DEPTH}"), line: None });
        }
        if let Kind::Alias(_) = self.peek()?.kind {
            return self.alias();
        }
        let Properties { start, anchor, tag } = self.properties()?;
        let token = self.peek()?;
        let content = match &token.kind {
            Kind::Scalar { plain, .. } => {
                let plain = tag.is_empty() && *plain || tag == "!";
                let text = match self.scanner.skip().map(|token| token.kind) {
                    Some(Kind::Scalar { text, .. }) => text,
                    _ => String::new(),
                };
                Content::Scalar { text, tag, plain }
            }
            Kind::FlowSequenceStart | Kind::FlowMappingStart => return self.collection(start, anchor, depth),
            Kind::BlockEntry if position == Position::BlockOrIndentless => {
                return self.collection(start, anchor, depth);
            }
            Kind::BlockSequenceStart | Kind::BlockMappingStart if position != Position::Flow => {
                return self.collection(start, anchor, depth);
            }
            _ if anchor.is_some() || !tag.is_empty() => {
                let plain = tag.is_empty();
                Content::Scalar { text: String::new(), tag, plain }
            }
            _ => return Err(problem(Some(start), token.start, "did not find expected node content")),
        };
        let id = self.add(start, content);
        self.set_anchor(anchor, id);
        Ok(id)
    }

    /// A sequence or mapping. Its anchor is known inside of it already.
    fn collection(&mut self, start: Mark, anchor: Option<String>, depth: usize) -> Parsed {
        let id = self.add(start, Content::Sequence(Vec::new()));
        self.set_anchor(anchor, id);
        let kind = self.peek()?.kind.clone();
        let content = match kind {
            Kind::BlockEntry => Content::Sequence(self.indentless_sequence(depth + 1)?),
            Kind::BlockSequenceStart => Content::Sequence(self.block_sequence(depth + 1)?),
            Kind::BlockMappingStart => Content::Mapping(self.block_mapping(depth + 1)?),
            Kind::FlowSequenceStart => Content::Sequence(self.flow_sequence(depth + 1)?),
            _ => Content::Mapping(self.flow_mapping(depth + 1)?),
        };
        self.document.nodes[id].content = content;
        Ok(id)
    }

    fn alias(&mut self) -> Parsed {
        let Some(Token { kind: Kind::Alias(name), start, .. }) = self.scanner.skip() else {
            return Err(Problem::plain("unknown problem parsing YAML content"));
        };
        match self.anchors.get(&name) {
            Some(&target) => Ok(self.add(start, Content::Alias { name, target })),
            None => Err(Problem::plain(format!("unknown anchor '{name}' referenced"))),
        }
    }

    /// The anchor and the tag in front of a node, in either order.
    fn properties(&mut self) -> Result<Properties, Problem> {
        let start = self.mark()?;
        let (mut anchor, mut tag) = (None, None);
        loop {
            let token = self.peek()?.clone();
            match token.kind {
                Kind::Anchor(name) if anchor.is_none() => anchor = Some(name),
                Kind::Tag { handle, suffix } if tag.is_none() => tag = Some((handle, suffix, token.start)),
                _ => break,
            }
            self.scanner.skip();
        }
        let tag = match tag {
            None => String::new(),
            Some((handle, suffix, _)) if handle.is_empty() => suffix,
            Some((handle, suffix, mark)) => {
                let prefix = self.tags.iter().find(|(known, _)| *known == handle).map(|(_, prefix)| prefix.as_str());
                let tag = prefix.map(|prefix| format!("{prefix}{suffix}")).unwrap_or_default();
                if tag.is_empty() {
                    return Err(problem(Some(start), mark, "found undefined tag handle"));
                }
                tag
            }
        };
        Ok(Properties { start, anchor, tag })
    }

    fn block_sequence(&mut self, depth: usize) -> Result<Vec<NodeId>, Problem> {
        let start = self.take()?.start;
        let mut items = Vec::new();
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::BlockEntry => {
                    let mark = self.take()?.end;
                    let empty = matches!(self.peek()?.kind, Kind::BlockEntry | Kind::BlockEnd);
                    items.push(if empty { self.empty(mark) } else { self.node(Position::Block, depth)? });
                }
                Kind::BlockEnd => {
                    self.scanner.skip();
                    return Ok(items);
                }
                _ => return Err(problem(Some(start), token.start, "did not find expected '-' indicator")),
            }
        }
    }

    /// A sequence whose dashes are where the keys of the mapping around it are.
    fn indentless_sequence(&mut self, depth: usize) -> Result<Vec<NodeId>, Problem> {
        let mut items = Vec::new();
        while self.next_is(&Kind::BlockEntry)? {
            let mark = self.take()?.end;
            let next = &self.peek()?.kind;
            let empty = matches!(next, Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd);
            items.push(if empty { self.empty(mark) } else { self.node(Position::Block, depth)? });
        }
        Ok(items)
    }

    fn block_mapping(&mut self, depth: usize) -> Result<Vec<(NodeId, NodeId)>, Problem> {
        let start = self.take()?.start;
        let mut pairs = Vec::new();
        loop {
            let token = self.peek()?;
            match token.kind {
                Kind::Key => {
                    let mark = self.take()?.end;
                    let key = self.block_mapping_part(mark, depth)?;
                    let value = if self.next_is(&Kind::Value)? {
                        let mark = self.take()?.end;
                        self.block_mapping_part(mark, depth)?
                    } else {
                        let mark = self.mark()?;
                        self.empty(mark)
                    };
                    pairs.push((key, value));
                }
                Kind::BlockEnd => {
                    self.scanner.skip();
                    return Ok(pairs);
                }
                _ => return Err(problem(Some(start), token.start, "did not find expected key")),
            }
        }
    }

    /// What follows `?` or `:`, which may be nothing.
    fn block_mapping_part(&mut self, mark: Mark, depth: usize) -> Parsed {
        match self.peek()?.kind {
            Kind::Key | Kind::Value | Kind::BlockEnd => Ok(self.empty(mark)),
            _ => self.node(Position::BlockOrIndentless, depth),
        }
    }

    fn flow_sequence(&mut self, depth: usize) -> Result<Vec<NodeId>, Problem> {
        let start = self.take()?.start;
        let mut items = Vec::new();
        while !self.next_is(&Kind::FlowSequenceEnd)? {
            if !items.is_empty() {
                self.flow_entry(start, "did not find expected ',' or ']'")?;
            }
            match self.peek()?.kind {
                Kind::Key => items.push(self.single_pair(depth)?),
                Kind::FlowSequenceEnd => break,
                _ => items.push(self.node(Position::Flow, depth)?),
            }
        }
        self.scanner.skip();
        Ok(items)
    }

    /// The comma between two entries.
    fn flow_entry(&mut self, start: Mark, message: &str) -> Result<(), Problem> {
        if !self.next_is(&Kind::FlowEntry)? {
            let mark = self.mark()?;
            return Err(problem(Some(start), mark, message));
        }
        self.scanner.skip();
        Ok(())
    }

    /// `key: value` inside a sequence, a mapping of its own.
    fn single_pair(&mut self, depth: usize) -> Parsed {
        let start = self.take()?.start;
        let id = self.add(start, Content::Mapping(Vec::new()));
        let token = self.peek()?;
        let key = match token.kind {
            // Upstream's parser takes the token away here, whatever it is.
            Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                let mark = token.end;
                self.scanner.skip();
                self.empty(mark)
            }
            _ => self.node(Position::Flow, depth + 1)?,
        };
        let mut mark = self.mark()?;
        let mut value = None;
        if self.next_is(&Kind::Value)? {
            self.scanner.skip();
            if !matches!(self.peek()?.kind, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                value = Some(self.node(Position::Flow, depth + 1)?);
            }
        } else {
            mark = self.mark()?;
        }
        let value = value.unwrap_or_else(|| self.empty(mark));
        self.peek()?;
        self.document.nodes[id].content = Content::Mapping(vec![(key, value)]);
        Ok(id)
    }

    fn flow_mapping(&mut self, depth: usize) -> Result<Vec<(NodeId, NodeId)>, Problem> {
        let start = self.take()?.start;
        let mut pairs = Vec::new();
        while !self.next_is(&Kind::FlowMappingEnd)? {
            if !pairs.is_empty() {
                self.flow_entry(start, "did not find expected ',' or '}'")?;
            }
            match self.peek()?.kind {
                Kind::FlowMappingEnd => break,
                Kind::Key => {
                    self.scanner.skip();
                    let key = self.flow_mapping_part(depth)?;
                    let value = if self.next_is(&Kind::Value)? {
                        self.scanner.skip();
                        self.flow_mapping_value(depth)?
                    } else {
                        let mark = self.mark()?;
                        self.empty(mark)
                    };
                    pairs.push((key, value));
                }
                _ => {
                    let key = self.node(Position::Flow, depth)?;
                    let mark = self.mark()?;
                    pairs.push((key, self.empty(mark)));
                }
            }
        }
        self.scanner.skip();
        Ok(pairs)
    }

    fn flow_mapping_part(&mut self, depth: usize) -> Parsed {
        let token = self.peek()?;
        match token.kind {
            Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => {
                let mark = token.start;
                Ok(self.empty(mark))
            }
            _ => self.node(Position::Flow, depth),
        }
    }

    fn flow_mapping_value(&mut self, depth: usize) -> Parsed {
        let token = self.peek()?;
        match token.kind {
            Kind::FlowEntry | Kind::FlowMappingEnd => {
                let mark = token.start;
                Ok(self.empty(mark))
            }
            _ => self.node(Position::Flow, depth),
        }
    }

    fn peek(&mut self) -> Result<&Token, Problem> {
        self.scanner.peek()
    }

    fn take(&mut self) -> Result<Token, Problem> {
        self.scanner.peek()?;
        self.scanner.skip().ok_or_else(|| Problem::plain("unknown problem parsing YAML content"))
    }

    fn next_is(&mut self, kind: &Kind) -> Result<bool, Problem> {
        Ok(self.peek()?.kind == *kind)
    }

    fn mark(&mut self) -> Result<Mark, Problem> {
        Ok(self.peek()?.start)
    }

    fn empty(&mut self, mark: Mark) -> NodeId {
        self.add(mark, Content::Scalar { text: String::new(), tag: String::new(), plain: true })
    }

    fn add(&mut self, start: Mark, content: Content) -> NodeId {
        self.document.nodes.push(Node { line: start.line, content });
        self.document.nodes.len() - 1
    }

    fn set_anchor(&mut self, anchor: Option<String>, id: NodeId) {
        if let Some(name) = anchor {
            self.anchors.insert(name, id);
        }
    }
}

/// What kinds of collection a node may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Flow,
    Block,
    /// Also a sequence that is not indented.
    BlockOrIndentless,
}

struct Properties {
    start: Mark,
    anchor: Option<String>,
    tag: String,
}

/// An error of the parser. Unlike the scanner's, the line is not counted from one; nor is it upstream.
fn problem(context: Option<Mark>, mark: Mark, message: &str) -> Problem {
    let line = [mark.line, context.map_or(0, |context| context.line)].into_iter().find(|&line| line != 0);
    Problem { message: message.into(), line }
}
