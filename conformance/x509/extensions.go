package main

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/rand/v2"
)

func marshal(value any, parameters ...string) []byte {
	option := ""
	if len(parameters) > 0 {
		option = parameters[0]
	}
	der, err := asn1.MarshalWithParams(value, option)
	check(err)
	return der
}

// tagged is an element with a tag of its own, primitive or not.
func tagged(tag int, isCompound bool, contents []byte) []byte {
	return marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: isCompound, Bytes: contents})
}

func sequence(parts ...[]byte) []byte {
	contents := []byte{}
	for _, part := range parts {
		contents = append(contents, part...)
	}
	return marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: contents})
}

func extension(critical bool, value []byte, id ...int) pkix.Extension {
	return pkix.Extension{Id: id, Critical: critical, Value: value}
}

func keyUsage(bits byte) pkix.Extension {
	return extension(true, marshal(asn1.BitString{Bytes: []byte{bits}, BitLength: 8}), 2, 5, 29, 15)
}

func basicConstraints(isCA bool, pathLen int) pkix.Extension {
	type constraints struct {
		IsCA    bool `asn1:"optional"`
		PathLen int  `asn1:"optional,default:-1"`
	}
	return extension(true, marshal(constraints{isCA, pathLen}), 2, 5, 29, 19)
}

var usages = []asn1.ObjectIdentifier{
	oid(1, 3, 6, 1, 5, 5, 7, 3, 1), oid(1, 3, 6, 1, 5, 5, 7, 3, 2), oid(1, 3, 6, 1, 5, 5, 7, 3, 3), oid(2, 5, 29, 37, 0), oid(1, 2, 3, 4),
}

func extendedKeyUsage(random *rand.Rand) pkix.Extension {
	list := []asn1.ObjectIdentifier{}
	for range random.IntN(3) + 1 {
		list = append(list, pick(random, usages...))
	}
	if one(random, 12) {
		list = nil
	}
	return extension(one(random, 2), marshal(list), 2, 5, 29, 37)
}

func keyID(id byte) []byte { return []byte{id, id, id, id} }

func subjectKeyID(random *rand.Rand, id []byte) pkix.Extension {
	return extension(one(random, 40), marshal(id), 2, 5, 29, 14)
}

func authorityKeyID(random *rand.Rand, id []byte) pkix.Extension {
	value := sequence(tagged(0, false, id))
	if one(random, 12) {
		value = sequence(tagged(1, true, nil))
	}
	return extension(one(random, 40), value, 2, 5, 29, 35)
}

var (
	domains = []string{
		"a.example", "b.a.example", "A.Example", "c.b.a.example", "other.test", "x-a.example", "xa.example", "*.a.example", "*.example",
		"a.example.", "_b.a.example", "-b.a.example", "*", "", "a..example", ".a.example", "a b", "10.1.2.3", "b*.a.example", "b.*.example",
	}
	goodDomains = domains[:9]
	emails      = []string{
		"ann@a.example", "ann@b.a.example", "Ann@A.example", "bob@other.test", "\"a b\"@a.example", "a\\@b@a.example", "ann", "@a.example",
		"ann@", "a..b@a.example", ".a@a.example", "\"a\\\"b\"@a.example", "ann@a..example", "a(b@c.example",
	}
	uris = []string{
		"https://a.example/x", "https://b.a.example:443/", "spiffe://A.Example/ns", "https://[::1]/", "https://10.1.2.3/", "urn:x:y", "/path",
		"https://a.example:x/", "https://a..example/", "https://a.example:1:2/", "x://a.example:1:2/", "https://%zz/", "https://u:p@b.a.example/?q#f",
		"https://other.test:80", "://x", "https://a.example./",
	}
	addresses = [][]byte{
		{10, 1, 2, 3}, {10, 2, 0, 1}, {192, 168, 0, 1}, {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {10, 1},
		{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3},
	}
)

func alternativeNames(random *rand.Rand) pkix.Extension {
	list := [][]byte{}
	careful := !one(random, 6)
	for range random.IntN(5) {
		switch random.IntN(8) {
		case 0:
			list = append(list, tagged(1, false, []byte(pick(random, emails[:pickLimit(careful, 4, len(emails))]...))))
		case 1:
			list = append(list, tagged(6, false, []byte(pick(random, uris[:pickLimit(careful, 3, len(uris))]...))))
		case 2, 3:
			list = append(list, tagged(7, false, addresses[random.IntN(pickLimit(careful, 4, len(addresses)))]))
		case 4:
			if !careful {
				list = append(list, pick(random, tagged(4, true, sequence()), tagged(2, false, []byte("\xc3\xa9")), tagged(2, true, []byte("a"))))
				continue
			}
			fallthrough
		default:
			list = append(list, tagged(2, false, []byte(pick(random, domains[:pickLimit(careful, 9, len(domains))]...))))
		}
	}
	return extension(one(random, 3), sequence(list...), 2, 5, 29, 17)
}

func pickLimit(careful bool, few, all int) int {
	if careful {
		return few
	}
	return all
}

var networks = [][]byte{
	{10, 0, 0, 0, 255, 0, 0, 0}, {10, 1, 0, 0, 255, 255, 0, 0}, {10, 9, 9, 9, 255, 0, 0, 0}, {192, 168, 0, 0, 255, 255, 0, 0}, {1, 0, 0, 0, 255, 0, 0, 0},
	{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	{0, 0, 0, 0, 0, 0, 0, 0}, {10, 0, 0, 0, 255, 0, 255, 0}, {10, 0, 0},
}

func subtrees(random *rand.Rand, careful bool) []byte {
	list := []byte{}
	for range random.IntN(4) {
		var name []byte
		switch random.IntN(6) {
		case 0:
			constraints := []string{"a.example", ".a.example", "ann@a.example", "Ann@A.example", "", "@x", "a..b"}
			name = tagged(1, false, []byte(pick(random, constraints[:pickLimit(careful, 4, 7)]...)))
		case 1:
			constraints := []string{"a.example", ".a.example", ".example", "", "10.1.2.3", "a."}
			name = tagged(6, false, []byte(pick(random, constraints[:pickLimit(careful, 4, 6)]...)))
		case 2:
			name = tagged(7, false, networks[random.IntN(pickLimit(careful, 7, len(networks)))])
		case 3:
			name = tagged(4, true, sequence())
			if careful {
				name = tagged(2, false, []byte("example"))
			}
		default:
			constraints := []string{"a.example", ".a.example", "example", "b.a.example", "other.test", "x-a.example", "", "a..b", "\xff", "a."}
			name = tagged(2, false, []byte(pick(random, constraints[:pickLimit(careful, 6, 10)]...)))
		}
		list = append(list, sequence(name)...)
	}
	return list
}

func nameConstraints(random *rand.Rand) pkix.Extension {
	parts := [][]byte{}
	careful := !one(random, 9)
	for tag := range 2 {
		if list := subtrees(random, careful); len(list) > 0 || one(random, 8) {
			parts = append(parts, tagged(tag, true, list))
		}
	}
	return extension(one(random, 2), sequence(parts...), 2, 5, 29, 30)
}

var policyIDs = []asn1.ObjectIdentifier{oid(2, 5, 29, 32, 0), oid(1, 2, 3), oid(1, 2, 4), oid(1, 2, 5)}

func policyExtensions(random *rand.Rand) []pkix.Extension {
	found := []pkix.Extension{}
	policies := [][]byte{}
	for _, id := range policyIDs {
		if one(random, 2) {
			policies = append(policies, sequence(marshal(id)))
		}
	}
	if one(random, 20) && len(policies) > 0 {
		policies = append(policies, policies[0])
	}
	if len(policies) > 0 {
		found = append(found, extension(one(random, 2), sequence(policies...), 2, 5, 29, 32))
	}
	if one(random, 3) {
		mappings := [][]byte{}
		for range 1 + random.IntN(3) {
			mappings = append(mappings, sequence(marshal(pick(random, policyIDs[one01(random):]...)), marshal(pick(random, policyIDs[one01(random):]...))))
		}
		found = append(found, extension(one(random, 2), sequence(mappings...), 2, 5, 29, 33))
	}
	if one(random, 2) {
		parts := [][]byte{}
		for tag := range 2 {
			if one(random, 2) {
				parts = append(parts, tagged(tag, false, []byte{pick[byte](random, 0, 0, 1, 2, 0xff)}))
			}
		}
		found = append(found, extension(one(random, 2), sequence(parts...), 2, 5, 29, 36))
	}
	if one(random, 3) {
		found = append(found, extension(one(random, 2), marshal(pick(random, 0, 0, 1, 2, -1)), 2, 5, 29, 54))
	}
	return found
}

func one01(random *rand.Rand) int {
	if one(random, 6) {
		return 0
	}
	return 1
}

// oddExtensions are unknown, malformed or misplaced.
func oddExtension(random *rand.Rand) pkix.Extension {
	critical := one(random, 2)
	return pick(random,
		extension(critical, []byte{5, 0}, 1, 2, 3, 4),
		extension(critical, []byte{5, 0}, 2, 5, 29, 99),
		extension(critical, sequence(sequence(tagged(0, true, tagged(0, true, tagged(6, false, []byte("http://x")))))), 2, 5, 29, 31),
		extension(critical, sequence(sequence(tagged(0, true, []byte{5, 0}))), 2, 5, 29, 31),
		extension(critical, []byte{5, 0}, 2, 5, 29, pick(random, 14, 15, 17, 19, 30, 31, 32, 33, 35, 36, 37, 54)),
		extension(critical, sequence(), 2, 5, 29, pick(random, 14, 15, 17, 19, 30, 31, 32, 33, 35, 36, 37, 54)),
		extension(critical, nil, 2, 5, 29, pick(random, 14, 15, 17, 19, 30, 31, 32, 33, 35, 36, 37, 54)),
		extension(critical, sequence(sequence(marshal(oid(1, 3, 6, 1, 5, 5, 7, 48, 1)), tagged(6, false, []byte("http://x")))), 1, 3, 6, 1, 5, 5, 7, 1, 1),
		extension(critical, []byte{5, 0}, 1, 3, 6, 1, 5, 5, 7, 1, 1),
		extension(critical, sequence([]byte{1, 1, 1}), 2, 5, 29, 19),
		extension(critical, sequence([]byte{1, 1, 255}, []byte{2, 1, 255}), 2, 5, 29, 19),
		extension(critical, sequence([]byte{1, 1, 255}, []byte{2, 2, 0, 1}), 2, 5, 29, 19),
		extension(critical, []byte{3, 2, 7, 0x81}, 2, 5, 29, 15),
		extension(critical, []byte{3, 2, 8, 0x80}, 2, 5, 29, 15),
		extension(critical, []byte{3, 3, 7, 0x04, 0x80}, 2, 5, 29, 15),
	)
}
