import { randomBytes } from 'node:crypto';
import { systemClock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { Leftover, ObjectStore } from './object-store.ts';

/**
 * How long a claim counts, in the server's time. After its owner has listed the claims, all its requests together take
 * less.
 */
const claimMs = 15 * 60_000;

/** After this time since the claim was made its owner writes no more. */
const useMs = 60_000;

const maxTries = 12;

const folder = '_claims/';
const claimName = /\/[0-9a-f]{16}$/;

interface ClaimStore extends Pick<ObjectStore, 'list' | 'read' | 'replace' | 'remove'> {
  /** Under a name that nothing has, as far as is known. */
  readonly write: (name: string, text: string) => Promise<void>;
}

/**
 * `create` for a server that ignores conditions. Each writer puts its claim beside the name and then lists all claims.
 * It writes only if its claim is the only one: of two writers, the one that lists later sees the other's claim, so they
 * never both write. A writer that sees another claim withdraws its own and tries again later. Lists must show what was
 * written before; a server whose list lacks the writer's own claim is refused. The claim of a writer that was killed
 * counts for 15 minutes.
 */
export async function createByClaim(
  store: ClaimStore,
  name: string,
  text: string,
  signal: AbortSignal,
): Promise<'created' | 'exists'> {
  const claims = `${folder}${name}/`;
  for (let tried = 1; tried <= maxTries; tried += 1) {
    if ((await store.read(name)) !== null) return 'exists';
    const claim = claims + randomBytes(8).toString('hex');
    const startedMs = performance.now();
    await store.replace(claim, '');
    const others = await claimsBeside(store, claims, claim);
    const isAlone = others.length === 0 && performance.now() - startedMs < useMs;
    if (isAlone && (await store.read(name)) === null) {
      // If this fails, the claim stays: the text may still arrive, and no other process may write before.
      await store.write(name, text);
    }
    const found = isAlone ? await store.read(name) : null;
    await store.remove([claim, ...others.filter(({ isOver }) => isOver).map((other) => other.name)]);
    if (found !== null) return found.toString() === text ? 'created' : 'exists';
    await systemClock.sleep(Math.random() * Math.min(3_000, 100 * 2 ** tried), signal);
  }
  throw new SyncError(
    `Another process is publishing to this target, or one was killed while it did: the server ignores conditions (If-None-Match), so its claim below ${claims} counts for ${claimMs / 60_000} minutes. Publish again later.`,
    { code: 'TARGET_FAILED', recovery: 'retry' },
  );
}

/** Those of writers that were killed. They count no more, and only a writer of the same name would remove them. */
export async function leftClaims({
  list,
  remove,
}: Pick<ObjectStore, 'list' | 'remove'>): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  for await (const { name, bytes, modifiedAtMs } of list(folder)) {
    if (!claimName.test(name) || bytes !== 0) continue;
    found.push({ files: 1, bytes, modifiedAtMs, remove: async () => await remove([name]) });
  }
  return found;
}

/** The claims of others; those that are over are older than one counts. */
async function claimsBeside(
  store: Pick<ObjectStore, 'list'>,
  claims: string,
  own: string,
): Promise<readonly { readonly name: string; readonly isOver: boolean }[]> {
  const found: { readonly name: string; readonly modifiedAtMs: number }[] = [];
  for await (const claim of store.list(claims)) found.push(claim);
  const nowMs = found.find(({ name }) => name === own)?.modifiedAtMs;
  if (nowMs === undefined) {
    throw new SyncError(
      'The server ignores conditions (If-None-Match), and its lists do not show what was just written. Two processes could publish over each other unnoticed, so nothing is published there. Use a server that has one of both.',
      { code: 'TARGET_INCOMPATIBLE', recovery: 'stop' },
    );
  }
  return found
    .filter(({ name }) => name !== own)
    .map(({ name, modifiedAtMs }) => ({ name, isOver: nowMs - modifiedAtMs > claimMs }));
}
