import {
  createHash,
  randomBytes,
  scrypt,
  scryptSync,
  timingSafeEqual,
  type ScryptOptions,
} from 'node:crypto';
import { promisify } from 'node:util';

/** scrypt's parameters: memory is 128 * n * r bytes. */
export interface HashCost {
  readonly n: number;
  readonly r: number;
  readonly p: number;
}

/**
 * 32 MiB and about 0.1 s a guess. A secret that was generated here could not be guessed anyway; a chosen one may be
 * weak.
 */
export const atRestCost: HashCost = { n: 2 ** 15, r: 8, p: 1 };
/** Nothing of it outlives the process, so there is no file to guess against. */
export const inMemoryCost: HashCost = { n: 2 ** 10, r: 8, p: 1 };

const hashBytes = 32;
const saltBytes = 16;
const stored = /^scrypt\$(\d{1,7})\$(\d{1,2})\$(\d{1,2})\$([\w-]{22})\$([\w-]{43})$/;

/** The secret's hash with all that is needed to check it: `scrypt$n$r$p$salt$hash`, base64url. */
export function hashSecret(secret: string, cost: HashCost): string {
  const salt = randomBytes(saltBytes);
  return written(salt, cost, scryptSync(wholeOf(secret), salt, hashBytes, options(cost)));
}

/** A hash that no secret has, to do the same work against. */
export function unmatchedHash(cost: HashCost): string {
  return written(randomBytes(saltBytes), cost, randomBytes(hashBytes));
}

/** False too for a text that is no such hash. */
export function matchesSecretNow(secret: string, text: string): boolean {
  const hash = read(text);
  if (hash === null) return false;
  return timingSafeEqual(scryptSync(wholeOf(secret), hash.salt, hashBytes, options(hash.cost)), hash.digest);
}

/** The same, off the main thread. */
export async function matchesSecret(secret: string, text: string): Promise<boolean> {
  const hash = read(text);
  if (hash === null) return false;
  const digest = await scryptSoon(wholeOf(secret), hash.salt, hashBytes, options(hash.cost));
  return timingSafeEqual(digest, hash.digest);
}

const scryptSoon = promisify<Buffer, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** Of one length always: scrypt itself takes a secret and the same one with zero bytes behind it for equal. */
function wholeOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function written(salt: Buffer, { n, r, p }: HashCost, digest: Buffer): string {
  return ['scrypt', n, r, p, salt.toString('base64url'), digest.toString('base64url')].join('$');
}

function read(text: string) {
  const [, n, r, p, salt = '', digest = ''] = stored.exec(text) ?? [];
  if (n === undefined) return null;
  return {
    salt: Buffer.from(salt, 'base64url'),
    cost: { n: Number(n), r: Number(r), p: Number(p) },
    digest: Buffer.from(digest, 'base64url'),
  };
}

function options({ n, r, p }: HashCost): ScryptOptions {
  return { N: n, r, p, maxmem: 256 * n * r };
}
