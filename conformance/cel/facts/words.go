package main

import (
	"encoding/json"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// strings that a function is likely to understand, or just not to.
var wordsOf = map[string][]string{
	"quantity":     {"1", "1Gi", "1.5", "-0.5m", "100k", "1e3", "1E-2", "0", "1.", ".5", "1Mi ", "9223372036854775807", "9223372036854775808", "1n", "0.1n", "1Ei", "8Ei", "+5", "1ki", "", "1e400", "12345678901234567890123"},
	"url":          {"http://a", "https://u:p@example.com:8443/a/b?x=1&x=2&y=#f", "/abs/path", "relative", "http://[::1]:80/", "http://[fe80::1%25en0]/", "http://a:b/", "http://a b", "mailto:x@y", "//h/p", "http://h/%zz", "http://h/a%2Fb?q=%20+", "http://h:0?", ":x", "", "http://éx/é"},
	"ip":           {"1.2.3.4", "127.0.0.1", "::1", "::", "0.0.0.0", "fe80::1", "ff02::1", "224.0.0.1", "169.254.1.1", "::ffff:1.2.3.4", "2001:DB8::1", "2001:db8:0:0:0:0:0:1", "1.2.3", "01.2.3.4", "fe80::1%eth0", "256.1.1.1", "", "10.0.0.1 ", "64:ff9b::1.2.3.4"},
	"cidr":         {"10.0.0.0/8", "10.1.2.3/8", "::/0", "2001:db8::/32", "1.2.3.4/32", "1.2.3.4/33", "1.2.3.4", "10.0.0.0/08", "::ffff:1.2.3.4/112", "0.0.0.0/0", "fe80::1%a/64", "", "10.0.0.0/-1"},
	"semver":       {"1.2.3", "0.0.1", "1.2.3-alpha.1", "1.2.3+b", "1.2.3-rc.1+b.5", "v1.2.3", "1.2", "01.2.3", "1", "1.2.3.4", "1.2.3-01", "", "18446744073709551616.0.0", "1.0.0-0", "1.0.0-a..b"},
	"format.named": {"dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime", "nope"},
	"validate":     {"a", "a-b", "A", "-a", "a.b", "example.com/name", "2020-01-01", "2020-13-01", "2020-01-01T00:00:00Z", "YWJj", "http://a", "123e4567-e89b-12d3-a456-426614174000", "", strings.Repeat("a", 64)},
	"matches":      {"a", "^a.*b$", "[a-z]+", "(a|b)*", "\\d{2,3}", "(?i)ABC", "(", "a{1001}", "[[:alpha:]]", "\\p{L}", "(?P<n>a)", "a**", "[z-a]", "\\b", ".", "", "^$", "x*", "(?s).", "\\pN", "\\Q.\\E"},
	"duration":     {"1s", "1h30m", "-1.5h", "0", "1", "1ms", "1us", "1ns", "2562047h47m16.854775807s", "2562047h47m16.854775808s", "1d", "", ".5s", "1.s", "+1m", "315576000001s"},
	"timestamp":    {"2024-02-29T23:58:07.123456789Z", "2009-02-13T23:31:30Z", "2023-01-01T00:00:00+05:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2024-01-01", "2023-02-30T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01t00:00:00z", "10000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00.1234567891Z"},
	"getHours":     {"UTC", "Europe/Berlin", "America/New_York", "+01:00", "-02:30", "00:15", "Nope/Zone", "", "Asia/Kolkata", "+25:00", "1:5", "+01", "EST"},
	"format":       {"%s", "%d %s", "%x", "%X", "%o", "%b", "%f", "%.3f", "%e", "%.1e", "%%", "%", "%z", "%s %s", "a%sb", "%.f", "%d", "%5d", "%.20f", "%c"},
	"int":          {"1", "-1", "9223372036854775807", "9223372036854775808", "0x1", " 1", "1.0", "", "+5", "1e3", "007"},
	"double":       {"1.5", "-0", "NaN", "Inf", "-inf", "1e400", "0x1p-2", "1_000", "", "infinity", ".5", "5."},
	"bool":         {"true", "false", "True", "TRUE", "t", "1", "0", "yes", ""},
	"split":        {",", "", "ab", "é", "a"},
}

var sameWords = map[string]string{
	"isQuantity": "quantity", "isURL": "url", "isIP": "ip", "ip.isCanonical": "ip", "containsIP": "ip", "isCIDR": "cidr", "containsCIDR": "cidr",
	"isSemver": "semver", "find": "matches", "findAll": "matches", "uint": "int", "string": "double", "join": "split", "replace": "split",
	"indexOf": "split", "lastIndexOf": "split", "contains": "split", "getFullYear": "getHours", "getMonth": "getHours", "getDate": "getHours",
	"getDayOfMonth": "getHours", "getDayOfWeek": "getHours", "getDayOfYear": "getHours", "getMinutes": "getHours", "getSeconds": "getHours",
	"getMilliseconds": "getHours",
}

var anyWords = []string{"", "a", "b", "abc", "a,b,c", "héllo", "😀x", " pad ", "Tacocat", "1", "true", "a\\nb", "x\\u00e9", "zz", "key", "\\x41\\101", "aaa", "long text with several words in it"}

var ints = []string{"0", "1", "2", "-1", "3", "5", "10", "0x1F", "-0xA", "100", "9223372036854775807", "-9223372036854775808", "1000000007", "253402300799", "-62135596800", "4294967296"}
var uints = []string{"0u", "1u", "2u", "3u", "0xFFu", "10u", "18446744073709551615u", "9223372036854775808u"}
var doubles = []string{"0.0", "-0.0", "1.0", "1.5", "-2.5", "3.14159", "1e308", "1e-310", "9223372036854775808.0", "1e19", ".5", "2.", "double('NaN')", "double('inf')", "double('-inf')", "0.1"}
var byteTexts = []string{"b''", "b'abc'", "b'\\xff'", "b'\\303\\277'", "b'é'", "bytes('x')", "b'\\000'"}

// leaf is a literal or a variable.
func (g *generator) leaf(ty *cel.Type, context string) string {
	if g.percent(45) {
		fitting := []local{}
		for _, variable := range g.locals {
			if variable.ty.IsExactType(ty) {
				fitting = append(fitting, variable)
			}
		}
		if len(fitting) > 0 {
			return pick(g, fitting).name
		}
	}
	if g.percent(3) {
		return pick(g, []string{"d", "x", "self.any.x", "self.ios", "nope", "l[0]", "m.a", "self.nope"})
	}
	return g.literal(ty, context)
}

func (g *generator) literal(ty *cel.Type, context string) string {
	switch ty.Kind() {
	case types.BoolKind:
		return pick(g, []string{"true", "false"})
	case types.IntKind:
		return pick(g, ints[:5+g.IntN(len(ints)-4)])
	case types.UintKind:
		return pick(g, uints)
	case types.DoubleKind:
		return pick(g, doubles)
	case types.StringKind:
		return g.text(context)
	case types.BytesKind:
		return pick(g, byteTexts)
	case types.NullTypeKind:
		return "null"
	case types.TimestampKind:
		return "timestamp(" + g.text("timestamp") + ")"
	case types.DurationKind:
		return "duration(" + g.text("duration") + ")"
	case types.TypeKind:
		return pick(g, []string{"int", "string", "type(1)", "list", "map", "type", "bool", "google.protobuf.Timestamp", "null_type", "bytes", "net.IP", "kubernetes.Quantity"})
	case types.ListKind:
		items := make([]string, g.IntN(4))
		for i := range items {
			items[i] = g.leaf(ty.Parameters()[0], context)
			if g.percent(3) {
				items[i] = "?optional.of(" + items[i] + ")"
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	case types.MapKind:
		entries := []string{}
		if ty.Parameters()[0].Kind() == types.StringKind && g.percent(60) {
			entries = append(entries, "'a': "+g.leaf(ty.Parameters()[1], context))
		}
		for range g.IntN(3) {
			entries = append(entries, g.leaf(ty.Parameters()[0], context)+": "+g.leaf(ty.Parameters()[1], context))
		}
		return "{" + strings.Join(entries, ", ") + "}"
	case types.OpaqueKind:
		return g.opaque(ty)
	}
	return pick(g, []string{"1", "'a'", "d", "null"})
}

func (g *generator) opaque(ty *cel.Type) string {
	switch ty.TypeName() {
	case "optional_type":
		return pick(g, []string{"optional.none()", "optional.of(" + g.leaf(ty.Parameters()[0], "") + ")", "optional.ofNonZeroValue(" + g.leaf(ty.Parameters()[0], "") + ")"})
	case "kubernetes.Quantity":
		return "quantity(" + g.text("quantity") + ")"
	case "kubernetes.URL":
		return "url(" + g.text("url") + ")"
	case "net.IP":
		return "ip(" + g.text("ip") + ")"
	case "net.CIDR":
		return "cidr(" + g.text("cidr") + ")"
	case "kubernetes.Semver":
		return "semver(" + g.text("semver") + ")"
	case "kubernetes.authorization.Authorizer":
		return pick(g, []string{"authorizer", "authorizer", "authorizer.serviceAccount('ns', " + g.text("") + ")"})
	case "kubernetes.authorization.PathCheck":
		return "authorizer.path(" + pick(g, []string{"'/healthz'", "''", "'x'"}) + ")"
	case "kubernetes.authorization.GroupCheck":
		return "authorizer.group(" + g.text("") + ")"
	case "kubernetes.authorization.ResourceCheck":
		return "authorizer.group('').resource(" + g.text("") + ")"
	case "kubernetes.authorization.Decision":
		return "authorizer.group('apps').resource('deployments').check(" + pick(g, []string{"'get'", "'a'", "'b'", "''"}) + ")"
	case "kubernetes.NamedFormat":
		return "format." + pick(g, wordsOf["format.named"]) + "()"
	}
	return "d"
}

// text is a string literal.
func (g *generator) text(context string) string {
	words := anyWords
	if same, ok := sameWords[context]; ok {
		context = same
	}
	if known, ok := wordsOf[context]; ok && g.percent(80) {
		words = known
	}
	word := pick(g, words)
	if strings.Contains(word, "\\") && context == "matches" {
		return "r'" + word + "'"
	}
	return pick(g, []string{"'" + word + "'", "\"" + word + "\""})
}

var pieces = []string{"(", ")", "[", "]", "{", "}", ",", ".", "?", ":", "+", "-", "*", "/", "%", "==", "=", "!", "!=", "<", "<=", "&&", "||", "&", "|", "in", "has", "a", "1", "1u", "'", "\"", "'a'", " ", "\n", "..", ".?", "[?", "@", "#", "null", "true", "`a`", "\\", "é", "1.", "0x", "b'", "r'", "//", "self", "as", "if", "while", "$", "\t", "9999999999999999999"}

// damage deletes, repeats, replaces and inserts pieces of the text.
func (g *generator) damage(text string) string {
	for range 1 + g.IntN(3) {
		runes := []rune(text)
		at := g.IntN(len(runes) + 1)
		to := min(len(runes), at+1+g.IntN(3))
		switch g.IntN(4) {
		case 0:
			text = string(runes[:at]) + string(runes[to:])
		case 1:
			text = string(runes[:to]) + string(runes[at:])
		case 2:
			text = string(runes[:at]) + pick(g, pieces) + string(runes[to:])
		case 3:
			text = string(runes[:at]) + pick(g, pieces) + string(runes[at:])
		}
	}
	return text
}

var globals = []local{
	{"self.s", cel.StringType}, {"self.i", cel.IntType}, {"self.n", cel.DoubleType}, {"self.b", cel.BoolType}, {"self.li", cel.ListType(cel.IntType)},
	{"self.ls", cel.ListType(cel.StringType)}, {"self.m", cel.MapType(cel.StringType, cel.StringType)}, {"self.mi", cel.MapType(cel.StringType, cel.IntType)},
	{"self.o.a", cel.StringType}, {"self.o.b", cel.IntType}, {"self.lo[0].k", cel.StringType}, {"self.lo[0].v", cel.IntType}, {"self.set", cel.ListType(cel.StringType)},
	{"self.ts", cel.TimestampType}, {"self.du", cel.DurationType}, {"self.by", cel.BytesType}, {"self.dt", cel.TimestampType}, {"self.nul", cel.StringType},
	{"self.none", cel.StringType}, {"self.ll", cel.ListType(cel.ListType(cel.IntType))}, {"self.lb", cel.ListType(cel.BoolType)}, {"self.ln", cel.ListType(cel.DoubleType)},
	{"u", cel.UintType}, {"o", cel.OptionalType(cel.IntType)}, {"im", cel.MapType(cel.IntType, cel.StringType)}, {"ts", cel.TimestampType}, {"du", cel.DurationType},
	{"bs", cel.BytesType}, {"f", cel.DoubleType}, {"lu", cel.ListType(cel.UintType)},
}

// variables are those that the text mentions.
func (g *generator) variables(text string, bounded bool) map[string]variable {
	schema := unboundedSchema
	if bounded {
		schema = boundedSchema
	}
	all := map[string]variable{
		"self": {Schema: json.RawMessage(schema), Value: json.RawMessage(pick(g, selfValues))},
		"d":    {Schema: json.RawMessage(`"dyn"`), Cel: g.anyValue()},
		"x":    {Schema: json.RawMessage(`"dyn"`)},
		"l":    {Schema: json.RawMessage(`"list(dyn)"`), Cel: tagged{"list": []any{g.anyValue(), g.anyValue()}}},
		"m":    {Schema: json.RawMessage(`"map(string, dyn)"`), Cel: tagged{"map": []any{[]any{tagged{"string": "a"}, g.anyValue()}}}},
		"u":    {Schema: json.RawMessage(`"uint"`), Cel: tagged{"uint": json.Number("7")}},
		"o":    {Schema: json.RawMessage(`"optional(int)"`), Cel: pick(g, []any{tagged{"optional": nil}, tagged{"optional": tagged{"int": json.Number("3")}}})},
		"im":   {Schema: json.RawMessage(`"map(int, string)"`), Cel: tagged{"map": []any{[]any{tagged{"int": json.Number("1")}, tagged{"string": "one"}}}}},
		"ts":   {Schema: json.RawMessage(`"timestamp"`), Cel: tagged{"timestamp": "2024-02-29T23:58:07.123456789Z"}},
		"du":   {Schema: json.RawMessage(`"duration"`), Cel: tagged{"duration": pick(g, []string{"1h30m0s", "-1.5s", "0s", "1ns"})}},
		"bs":   {Schema: json.RawMessage(`"bytes"`), Cel: tagged{"bytes": pick(g, []string{"YWJj", "/w==", ""})}},
		"f":    {Schema: json.RawMessage(`"double"`), Cel: tagged{"double": pick(g, []any{json.Number("2.5"), "NaN", "-Infinity", "-0", json.Number("1e300")})}},
		"lu":   {Schema: json.RawMessage(`"list(uint)"`), Cel: tagged{"list": []any{tagged{"uint": json.Number("1")}, tagged{"uint": json.Number("2")}}}},
	}
	used := map[string]variable{}
	for name, variable := range all {
		if strings.Contains(text, name) {
			used[name] = variable
		}
	}
	return used
}

func (g *generator) anyValue() any {
	return pick(g, []any{
		tagged{"null": nil}, tagged{"bool": true}, tagged{"int": json.Number("1")}, tagged{"uint": json.Number("1")}, tagged{"double": json.Number("1.5")},
		tagged{"string": "a"}, tagged{"string": "1.2.3.4"}, tagged{"bytes": "YQ=="}, tagged{"timestamp": "2024-01-01T00:00:00Z"}, tagged{"duration": "1m0s"},
		tagged{"list": []any{tagged{"int": json.Number("1")}, tagged{"string": "b"}}}, tagged{"map": []any{[]any{tagged{"string": "a"}, tagged{"int": json.Number("2")}}}},
		tagged{"optional": nil}, tagged{"optional": tagged{"string": "a"}}, tagged{"type": "int"}, tagged{"list": []any{}},
	})
}
