package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"time"
)

// now is when everything is verified, more or less.
var now = time.Unix(1_800_000_000, 0).UTC()

// template is a certificate before it is signed.
type template struct {
	version         int
	serial          *big.Int
	subject, issuer []byte
	validity        []byte
	spki            []byte
	algorithm       algorithm
	extensions      []pkix.Extension
}

func (t template) signed(with key) []byte {
	parts := [][]byte{}
	if t.version != 0 {
		parts = append(parts, tagged(0, true, marshal(t.version)))
	}
	id := marshal(t.algorithm.id)
	parts = append(parts, marshal(t.serial), id, t.issuer, t.validity, t.subject, t.spki)
	if len(t.extensions) > 0 {
		parts = append(parts, tagged(3, true, marshal(t.extensions)))
	}
	return sealed(sequence(parts...), id, t.algorithm, with)
}

func sealed(tbs, id []byte, how algorithm, with key) []byte {
	signature := how.sign(with, tbs)
	return sequence(tbs, id, marshal(asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}))
}

func name(common, organization string) []byte {
	sequence := pkix.RDNSequence{}
	add := func(value string, id ...int) {
		if value != "" {
			sequence = append(sequence, pkix.RelativeDistinguishedNameSET{{Type: id, Value: value}})
		}
	}
	add(common, 2, 5, 4, 3)
	add(organization, 2, 5, 4, 10)
	return marshal(sequence)
}

// world is a set of authorities and of certificates they issued, most of them with a defect or two.
type world struct {
	random *rand.Rand
	keys   []key
	number int
	others [][]byte
	made   []made
}

// made is a certificate with what is needed to sign others in its name.
type made struct {
	der     []byte
	subject []byte
	key     key
	id      []byte
}

func newWorld(random *rand.Rand, keys []key, number int) *world {
	w := &world{random: random, keys: keys, number: number, others: leafKeys()}
	switch {
	case number%60 == 4:
		w.crowd()
	case number%4 == 3:
		w.mutants()
	default:
		w.authorities()
	}
	return w
}

// rare answers true once in n times, and hardly ever in worlds that are about names and policies.
func (w *world) rare(n int) bool {
	if w.isCalm() {
		n *= 10
	}
	return one(w.random, n)
}

func (w *world) isCalm() bool { return w.number%4 == 1 || w.number%4 == 2 }

// usual keys sign quickly and have short signatures.
func (w *world) key() key {
	if w.rare(4) {
		return pick(w.random, w.keys...)
	}
	return w.keys[w.random.IntN(5)]
}

func (w *world) algorithm(kind string) algorithm {
	all := algorithms[kind]
	if w.rare(3) {
		return pick(w.random, all...)
	}
	return all[0]
}

func (w *world) time(good time.Time) []byte {
	random := w.random
	if !w.rare(9) {
		return marshal(good)
	}
	switch random.IntN(6) {
	case 0:
		return marshal(pick(random, now, now.Add(time.Second), now.Add(-time.Second), now.AddDate(-3, 0, 0), now.AddDate(3, 0, 0)))
	case 1:
		text := pick(random, "500101000000Z", "491231235959Z", "2701150800Z", "270115080000+0000", "270115080000-0130", "270115080000+0130",
			"270230000000Z", "27011508000Z", "271315080000Z", "270115250000Z", "270115080060Z", "270115080000", "680101000000Z", "690101000000Z",
			"270115080000+2400", "270115080000+2360", "270115080000.5Z", "2701150800+0130")
		return marshal(asn1.RawValue{Tag: asn1.TagUTCTime, Bytes: []byte(text)})
	case 2:
		text := pick(random, "20270115080000Z", "99991231235959Z", "00000101000000Z", "20270115080000+0130", "202701150800Z", "20270115080000.5Z",
			"20280229000000Z", "20270229000000Z")
		return marshal(asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(text)})
	case 3:
		return marshal(asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("x")})
	default:
		return marshal(good)
	}
}

func (w *world) base(isCA bool) template {
	random := w.random
	t := template{version: 2, serial: big.NewInt(int64(1 + random.IntN(100)))}
	t.validity = sequence(w.time(now.AddDate(-1, 0, 0)), w.time(now.AddDate(1, 0, 0)))
	if w.rare(25) {
		t.version = pick(random, 0, 0, 1, 3, -1)
	}
	if w.rare(40) {
		t.serial = pick(random, big.NewInt(-3), big.NewInt(0), new(big.Int).Lsh(big.NewInt(1), 300))
	}
	add := func(extensions ...pkix.Extension) { t.extensions = append(t.extensions, extensions...) }
	if isCA {
		limit := -1
		if one(random, 4) {
			limit = random.IntN(3)
		}
		if !w.rare(16) {
			add(basicConstraints(!w.rare(14), limit))
		}
		if !one(random, 3) {
			bits := pick[byte](random, 4, 6, 6, 0x86)
			if w.rare(6) {
				bits = pick[byte](random, 0x80, 0)
			}
			add(keyUsage(bits))
		}
	} else if one(random, 4) {
		add(basicConstraints(one(random, 3), -1))
	}
	if w.rare(4) || (!isCA && w.rare(2)) {
		add(extendedKeyUsage(random))
	}
	if !isCA && !w.rare(4) || one(random, 12) {
		add(alternativeNames(random))
	}
	if isCA && (one(random, 4) || w.number%4 == 1 && one(random, 2)) || w.rare(40) {
		add(nameConstraints(random))
	}
	if w.number%4 == 2 && !one(random, 4) {
		add(policyExtensions(random)...)
	}
	if w.rare(14) {
		add(oddExtension(random))
	}
	return t
}

// issue makes a certificate in the name of an authority, or of itself.
func (w *world) issue(issuer *made, common string, isCA bool) made {
	random := w.random
	t := w.base(isCA)
	m := made{key: w.key(), subject: name(common, pick(random, "", "", "org")), id: keyID(byte(1 + random.IntN(5)))}
	if w.rare(30) {
		m.subject = name("", pick(random, "", "only"))
	}
	by := issuer
	if by == nil {
		by = &m
	}
	t.subject, t.issuer, t.spki = m.subject, by.subject, m.key.spki
	if !isCA && w.rare(8) {
		t.spki = pick(random, w.others...)
	}
	if one(random, 2) {
		t.extensions = append(t.extensions, subjectKeyID(random, m.id))
	}
	if one(random, 2) {
		id := by.id
		if one(random, 4) {
			id = keyID(9)
		}
		t.extensions = append(t.extensions, authorityKeyID(random, id))
	}
	if w.rare(30) && len(t.extensions) > 0 {
		t.extensions = append(t.extensions, t.extensions[0])
	}
	with := by.key
	t.algorithm = w.algorithm(with.kind)
	if w.rare(25) {
		// Signed by another key than the issuer's, of the same kind or not.
		with = w.key()
		if one(random, 2) {
			t.algorithm = w.algorithm(with.kind)
		} else if with.kind != t.algorithm.kind {
			with = by.key
		}
	}
	if w.rare(60) {
		claimed := pick(random, algorithms[pick(random, "rsa", "ecdsa", "ed25519")]...)
		t.algorithm.id = claimed.id
	}
	m.der = t.signed(with)
	if w.rare(60) {
		m.der = append(m.der, 0)
	}
	return m
}

// authorities makes roots, intermediates, some of them cross-signed, and leaves.
func (w *world) authorities() {
	random := w.random
	issuers := []*made{}
	keep := func(m made) *made {
		w.made = append(w.made, m)
		return &m
	}
	for range 1 + random.IntN(2) {
		issuers = append(issuers, keep(w.issue(nil, pick(random, "root", "root", "top"), true)))
	}
	for range 1 + random.IntN(4) {
		by := pick(random, issuers...)
		m := w.issue(by, pick(random, "one", "two", "two", "three"), true)
		issuers = append(issuers, keep(m))
		if one(random, 4) {
			// The same authority by another one.
			again := w.issue(pick(random, issuers...), "two", true)
			issuers = append(issuers, keep(again))
		}
	}
	for range 3 {
		keep(w.issue(pick(random, issuers...), "leaf", false))
	}
}

// mutants are leaves of which a byte or two was changed before they were signed.
func (w *world) mutants() {
	random := w.random
	root := made{subject: name("root", ""), key: w.keys[0], id: keyID(1)}
	t := template{version: 2, serial: big.NewInt(1), subject: root.subject, issuer: root.subject, spki: root.key.spki, algorithm: algorithms["ed25519"][0]}
	t.validity = sequence(marshal(now.AddDate(-1, 0, 0)), marshal(now.AddDate(1, 0, 0)))
	t.extensions = []pkix.Extension{basicConstraints(true, -1)}
	root.der = t.signed(root.key)
	w.made = append(w.made, root)
	for range 10 {
		t := w.base(false)
		t.version, t.validity = 2, sequence(marshal(now.AddDate(-1, 0, 0)), marshal(now.AddDate(1, 0, 0)))
		t.algorithm, t.issuer, t.subject = algorithms["ed25519"][0], root.subject, name("leaf", "org")
		t.spki = w.keys[w.random.IntN(5)].spki
		t.extensions = append(t.extensions, pick(random, policyExtensions(random), []pkix.Extension{nameConstraints(random)}, nil)...)
		whole := t.signed(root.key)
		var parts []asn1.RawValue
		_, err := asn1.Unmarshal(whole, &parts)
		check(err)
		tbs := append([]byte{}, parts[0].FullBytes...)
		for range 1 + random.IntN(2) {
			at := random.IntN(len(tbs))
			switch random.IntN(4) {
			case 0:
				tbs[at] = byte(random.IntN(256))
			case 1:
				tbs[at]++
			case 2:
				tbs[at]--
			default:
				tbs[at] = pick[byte](random, 0, 1, 0x80, 0xff, 0x30, 0x31, 0x1f, 0x7f, 0x81, 0x82)
			}
		}
		w.made = append(w.made, made{der: sealed(tbs, marshal(t.algorithm.id), t.algorithm, root.key)})
	}
}

// crowd has so many ways to a root that never comes that Go gives up.
func (w *world) crowd() {
	root := w.issue(nil, "root", true)
	w.made = append(w.made, root)
	subject := name("crowd", "")
	for i := range 9 {
		t := template{version: 2, serial: big.NewInt(int64(i)), subject: subject, issuer: subject, spki: w.keys[0].spki, algorithm: algorithms["ed25519"][0]}
		t.validity = sequence(marshal(now.AddDate(-1, 0, 0)), marshal(now.AddDate(1, 0, 0)))
		names := sequence(tagged(2, false, fmt.Appendf(nil, "n%d", i)))
		t.extensions = []pkix.Extension{basicConstraints(true, -1), extension(false, names, 2, 5, 29, 17)}
		w.made = append(w.made, made{der: t.signed(w.keys[0]), subject: subject, key: w.keys[0]})
	}
	w.made = append(w.made, w.issue(&w.made[3], "leaf", false))
}

// facts are the certificates, whether each can be read, and what was answered.
type facts struct {
	Certificates []string `json:"c"`
	Errors       []string `json:"e"`
	Verified     []any    `json:"v"`
	Hosts        []any    `json:"h"`
}

var hosts = append([]string{
	"a.example.", "B.A.EXAMPLE", "10.1.2.3", "[10.1.2.3]", "2001:db8::1", "[2001:db8::1]", "::ffff:10.1.2.3", "leaf", "x.example", "1.2.3.4", "fe80::1%eth0",
}, domains...)

func (w *world) facts() facts {
	random := w.random
	f := facts{Certificates: []string{}, Errors: []string{}, Verified: []any{}, Hosts: []any{}}
	certificates := make([]*x509.Certificate, len(w.made))
	readable := []int{}
	for i, m := range w.made {
		certificate, err := x509.ParseCertificate(m.der)
		f.Certificates = append(f.Certificates, hex.EncodeToString(m.der))
		if err != nil {
			f.Errors = append(f.Errors, err.Error())
			continue
		}
		f.Errors = append(f.Errors, "")
		certificates[i] = certificate
		readable = append(readable, i)
	}
	if len(readable) == 0 {
		return f
	}
	for range 12 {
		f.Verified = append(f.Verified, w.verify(certificates, readable))
	}
	for range 6 {
		at, host := pick(random, readable...), pick(random, hosts...)
		if names := certificates[at].DNSNames; len(names) > 0 && one(random, 2) {
			host = strings.Replace(pick(random, names...), "*", "x", 1)
		}
		answer := ""
		if err := certificates[at].VerifyHostname(host); err != nil {
			answer = err.Error()
		}
		f.Hosts = append(f.Hosts, []any{at, host, answer})
	}
	return f
}

func (w *world) verify(certificates []*x509.Certificate, readable []int) []any {
	random := w.random
	leaf := readable[len(readable)-1-random.IntN(min(3, len(readable)))]
	if one(random, 5) {
		leaf = pick(random, readable...)
	}
	if len(w.made) == 11 && w.number%4 == 3 {
		leaf = pick(random, readable...)
	}
	roots, intermediates := []int{}, []int{}
	for _, i := range readable {
		switch {
		case i < 2 && !one(random, 5), one(random, 12):
			roots = append(roots, i)
		case !one(random, 8):
			intermediates = append(intermediates, i)
		}
	}
	random.Shuffle(len(intermediates), func(i, j int) { intermediates[i], intermediates[j] = intermediates[j], intermediates[i] })
	pool := func(list []int) *x509.CertPool {
		pool := x509.NewCertPool()
		for _, i := range list {
			pool.AddCert(certificates[i])
		}
		return pool
	}
	at, usage, host := now, pick(random, "server", "client", "client", "any"), ""
	if w.rare(6) {
		at = pick(random, now.AddDate(-2, 0, 0), now.AddDate(2, 0, 0), now.AddDate(1, 0, 0), now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0).Add(time.Second))
	}
	if w.rare(5) {
		host = pick(random, hosts...)
	}
	wanted := map[string]x509.ExtKeyUsage{
		"server": x509.ExtKeyUsageServerAuth, "client": x509.ExtKeyUsageClientAuth, "any": x509.ExtKeyUsageAny,
	}
	chains, err := certificates[leaf].Verify(x509.VerifyOptions{
		Roots: pool(roots), Intermediates: pool(intermediates), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{wanted[usage]}, DNSName: host,
	})
	fact := []any{leaf, roots, intermediates, at.Unix(), usage, host}
	if err != nil {
		return append(fact, err.Error())
	}
	places := map[*x509.Certificate]int{}
	for i, certificate := range certificates {
		places[certificate] = i
	}
	found := [][]int{}
	for _, chain := range chains {
		list := []int{}
		for _, certificate := range chain {
			list = append(list, places[certificate])
		}
		found = append(found, list)
	}
	return append(fact, found)
}
