// A certificate for 127.0.0.1 that signs itself: Node makes keys and signatures, but no certificates.
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

const tlv = (tag, ...parts) => {
  const body = Buffer.concat(parts.map((part) => (Buffer.isBuffer(part) ? part : Buffer.from(part))));
  const size = body.length < 128 ? [body.length] : body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
};
const sequence = (...parts) => tlv(0x30, ...parts);
const oid = (...bytes) => tlv(0x06, bytes);
const ECDSA_SHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const time = (milliseconds) => tlv(0x17, new Date(milliseconds).toISOString().replace(/[-:T]|\.\d+/g, "").slice(2));
const extension = (id, value) => sequence(oid(0x55, 0x1d, id), tlv(0x04, value));

/** PEM texts for a server on 127.0.0.1, good for a day. */
export function makeCertificate() {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(tlv(0x31, sequence(oid(0x55, 0x04, 0x03), tlv(0x0c, "issuer"))));
  const extensions = sequence(
    extension(0x11, sequence(tlv(0x87, [127, 0, 0, 1]))),
    extension(0x13, sequence(tlv(0x01, [0xff]))),
    extension(0x25, sequence(oid(0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01))),
  );
  const certificate = sequence(
    tlv(0xa0, tlv(0x02, [2])),
    tlv(0x02, [1], randomBytes(8)),
    ECDSA_SHA256,
    name,
    sequence(time(Date.now() - 3_600_000), time(Date.now() + 86_400_000)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(0xa3, extensions),
  );
  const signed = sequence(certificate, ECDSA_SHA256, tlv(0x03, [0], sign("sha256", certificate, privateKey)));
  const lines = signed.toString("base64").replace(/.{64}/g, "$&\n");
  return { cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`, key: privateKey.export({ type: "pkcs8", format: "pem" }) };
}
