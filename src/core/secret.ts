/** Stands in texts for a secret. */
export const redacted = '[secret]';

/** A value that must never be printed. Only `reveal()` gives it out; every way of turning it into text redacts it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return redacted;
  }
}

/** Shorter ones hide badly: they stand in ordinary text by chance. */
const strongLength = 8;
/**
 * A word, a short number, or up to three characters. Random letters of this length cannot be distinguished from a word.
 */
const plain = /^(?:\p{L}{1,15}|\p{N}{1,7}|.{0,3})$/su;
const named = String.raw`(?:secret|password|passwd|passphrase|token|key|credentials?)`;

/** Whether a secret is too short, or too much like a word, to be hidden everywhere: do not use such a secret. */
export function isWeakSecret(value: string): boolean {
  return value.length < strongLength || isPlainWord(value);
}

/** Whether the text could be an ordinary word or number. */
export function isPlainWord(text: string): boolean {
  return plain.test(text);
}

/**
 * The text without these secrets, the longest first, however JSON, HTML and URLs escape them, also several times over.
 * A strong one is replaced wherever it stands, a short one where it is a word by itself. One that is an ordinary word
 * or number is replaced only where it is given as a secret (`"password":"mine"`, `token=mine`, `//user:mine@host`):
 * replacing it elsewhere would damage sentences and reveal it.
 */
export function hideSecrets(text: string, secrets: readonly string[]): string {
  // A secret may contain another one: replace the longer one first, or part of it would stay readable.
  const longestFirst = secrets.toSorted((left, right) => right.length - left.length);
  return longestFirst.reduce(hideSecret, text);
}

function hideSecret(text: string, secret: string): string {
  // Most texts contain none, and the patterns below are slower than this check. No escape changes letters and digits.
  const [unescaped = ''] = (secret.match(/[a-z0-9]+/gi) ?? []).toSorted(
    (one, other) => other.length - one.length,
  );
  if (secret === '' || !text.includes(unescaped)) return text;
  const written = [...secret.matchAll(/\\+|./gsu)].map(([part]) => writtenAs(part)).join('');
  if (!isWeakSecret(secret)) return text.replaceAll(new RegExp(written, 'gu'), redacted);
  const value = `${written}${String.raw`(?![\p{L}\p{N}])`}`;
  if (!isPlainWord(secret)) {
    return text.replaceAll(new RegExp(String.raw`(?<![\p{L}\p{N}])${value}`, 'gu'), redacted);
  }
  const given = [
    String.raw`(${named}\\*["']?\s*[:=]\s*\\*["'])${value}`,
    String.raw`(${named}[:=])${value}`,
    String.raw`(:\/\/[^\s/@]*:)${value}(?=@)`,
  ];
  return given.reduce(
    (clean, pattern) => clean.replaceAll(new RegExp(pattern, 'giu'), `$1${redacted}`),
    text,
  );
}

/** A pattern of a character, or of several backslashes, with the escapes of JSON, HTML and URLs, some times over. */
function writtenAs(part: string): string {
  if (/^[a-z0-9]$/i.test(part)) return part;
  const character = String.fromCodePoint(part.codePointAt(0) ?? 0);
  const point = character.codePointAt(0) ?? 0;
  const html = `&(?:amp;){0,3}(?:#0{0,7}${point}|#[xX]0{0,7}${hexOf(point, 1)}|[a-zA-Z][a-zA-Z0-9]{1,30});`;
  const bytes = [...Buffer.from(character.toWellFormed())];
  const url = bytes.map((byte) => `%(?:25){0,3}${hexOf(byte, 2)}`).join('');
  // Each level of JSON doubles them.
  if (character === '\\') return `(?:\\\\|${html}|${url}){${part.length},${8 * part.length}}`;
  const units = Array.from({ length: character.length }, (_, index) => hexOf(character.charCodeAt(index), 4));
  const json = `u${units.join(String.raw`\\{1,8}u`)}`;
  const [, short] = /^\\([a-z])$/.exec(JSON.stringify(character).slice(1, -1)) ?? [];
  const more = short === undefined ? '' : String.raw`|\\{1,8}${short}`;
  const plus = character === ' ' ? String.raw`|\+` : '';
  return String.raw`(?:\\{0,8}(?:${literal(character)}|${json}|${html}|${url}${plus})${more})`;
}

function literal(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

/** Pattern for a number in hexadecimal digits of either case. */
function hexOf(value: number, digits: number): string {
  const hex = value.toString(16).padStart(digits, '0');
  return hex.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

export const keyBytes = 32;

export const expectedKey = `expected a key of ${keyBytes} bytes in base64 or hex, as "openssl rand -base64 32" makes one`;

/** Null for a text that is no key. */
export function readKey(text: string): Buffer | null {
  const key = /^[0-9a-f]{64}$/i.test(text)
    ? Buffer.from(text, 'hex')
    : /^[\w+/-]{43}=?$/.test(text)
      ? Buffer.from(text, 'base64')
      : null;
  return key?.length === keyBytes ? key : null;
}
