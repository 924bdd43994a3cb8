const replacement = '[secret]';
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
 * The text without these secrets, the longest first. A strong one is replaced wherever it stands, a short one where it
 * is a word by itself. One that is an ordinary word or number is replaced only where it is given as a secret
 * (`"password":"mine"`, `token=mine`, `//user:mine@host`): replacing it elsewhere would damage sentences and reveal it.
 */
export function hideSecrets(text: string, secrets: readonly string[]): string {
  // A secret may contain another one: replace the longer one first, or part of it would stay readable.
  const longestFirst = secrets.toSorted((left, right) => right.length - left.length);
  return longestFirst.reduce(hideSecret, text);
}

function hideSecret(text: string, secret: string): string {
  // Most texts contain none, and the patterns below are slower than this check.
  if (secret === '' || !text.includes(secret)) return text;
  if (!isWeakSecret(secret)) return text.replaceAll(secret, replacement);
  const value = `${secret.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)}${String.raw`(?![\p{L}\p{N}])`}`;
  if (!isPlainWord(secret)) {
    return text.replaceAll(new RegExp(String.raw`(?<![\p{L}\p{N}])${value}`, 'gu'), replacement);
  }
  const given = [
    String.raw`(${named}\\*["']?\s*[:=]\s*\\*["'])${value}`,
    String.raw`(${named}[:=])${value}`,
    String.raw`(:\/\/[^\s/@]*:)${value}(?=@)`,
  ];
  return given.reduce(
    (clean, pattern) => clean.replaceAll(new RegExp(pattern, 'giu'), `$1${replacement}`),
    text,
  );
}
