import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import { hasAtMostCharacters } from '../../core/characters.ts';
import { type Clock, type Instant, instant } from '../../core/clock.ts';
import { usage } from '../../core/usage-error.ts';
import { ApiError } from '../api-error.ts';
import type { StateFile } from './open-state-file.ts';
import { isPlainName, plainNameRule } from './plain-name.ts';
import { type HashCost, hashSecret, matchesSecret, matchesSecretNow, unmatchedHash } from './secret-hash.ts';

/** An organization's client: the only way in. Its secret is kept as a hash that takes long to guess against. */
export interface Application {
  readonly clientId: string;
  readonly organizationId: string;
  readonly organizationName: string;
  readonly createdAt: Instant;
}

type NewApplication = Pick<Application, 'organizationName' | 'clientId'> & { readonly clientSecret: string };

interface ApplicationRow extends Application {
  readonly secret: string;
}

const maxSecretLength = 1_024;

export function createApplications(
  { ask, run, write }: StateFile,
  { clock, cost }: { readonly clock: Clock; readonly cost: HashCost },
) {
  const select = `SELECT client_id, organization_id, organizations.name AS organization_name, applications.created_at, secret
    FROM applications JOIN organizations ON organizations.id = organization_id`;
  const byId = `${select} WHERE client_id = :clientId`;

  const unmatched = unmatchedHash(cost);
  const proven = createProvenSecrets();
  const inTurn = takeTurns();

  return {
    /**
     * Makes the application, and its organization where there is none of this name; one that already exists gets the
     * new secret. Throws `SyncError` USAGE for a client id of another organization.
     */
    put({ organizationName, clientId, clientSecret }: NewApplication): Application {
      checkNames(organizationName, clientId);
      checkSecret(clientSecret);
      const row = write(() => {
        const present = ask<ApplicationRow>(byId, { clientId }).first;
        const now = instant(clock.now());
        if (present === undefined) {
          run(
            'INSERT INTO organizations (id, name, created_at) VALUES (:id, :organizationName, :now) ON CONFLICT (name) DO NOTHING',
            { id: randomUUID(), organizationName, now },
          );
          run(
            `INSERT INTO applications (client_id, organization_id, secret, created_at)
             SELECT :clientId, id, :secret, :now FROM organizations WHERE name = :organizationName`,
            { clientId, secret: hashSecret(clientSecret, cost), now, organizationName },
          );
        } else if (present.organizationName !== organizationName) {
          throw usage(
            `The client id ${clientId} belongs to another organization than ${organizationName}. Choose another client id.`,
          );
        } else if (!matchesSecretNow(clientSecret, present.secret)) {
          const secret = hashSecret(clientSecret, cost);
          run('UPDATE applications SET secret = :secret WHERE client_id = :clientId', { secret, clientId });
          // Clients with the old secret are shut out now, not when their tokens expire.
          run('DELETE FROM tokens WHERE client_id = :clientId', { clientId });
        }
        return ask<ApplicationRow>(byId, { clientId }).one();
      });
      proven.remember(row, clientSecret);
      return withoutSecret(row);
    },
    /**
     * Null for an unknown id as for a wrong secret, after the same work. `address`: where the request came from.
     * Rejects with `ApiError` 429 where too many wait to be checked.
     */
    async authenticate(clientId: string, clientSecret: string, address: string): Promise<Application | null> {
      const row = ask<ApplicationRow>(byId, { clientId }).first;
      if (row !== undefined && proven.has(row, clientSecret)) return withoutSecret(row);
      // All unknown ids from one address are one sender: made-up ids bring no further turns.
      const sender = row === undefined ? address : `${address} ${clientId}`;
      const isRight = await inTurn(sender, () =>
        matchesSecret(clientSecret.slice(0, maxSecretLength + 1), row?.secret ?? unmatched),
      );
      if (row === undefined || !isRight) return null;
      // It may have been deleted, or given another secret, meanwhile.
      if (ask<ApplicationRow>(byId, { clientId }).first?.secret !== row.secret) return null;
      proven.remember(row, clientSecret);
      return withoutSecret(row);
    },
    list: (): readonly Application[] =>
      ask<ApplicationRow>(`${select} ORDER BY sequence`).all.map(withoutSecret),
    /** Its tokens are deleted with it. False: there was none. */
    delete(clientId: string): boolean {
      proven.forget(clientId);
      return run('DELETE FROM applications WHERE client_id = :clientId', { clientId }) > 0;
    },
  };
}

/**
 * The last right secret of each application, so that one that asks for tokens often does not cost a slow hash each
 * time. Kept as a digest under a key that only this process has, together with the stored hash that it was right for.
 */
function createProvenSecrets() {
  const key = randomBytes(32);
  const byClientId = new Map<string, { readonly digest: Buffer; readonly secret: string }>();
  const digestOf = (secret: string): Buffer => createHmac('sha256', key).update(secret).digest();
  return {
    remember: ({ clientId, secret }: ApplicationRow, clientSecret: string): void => {
      byClientId.set(clientId, { digest: digestOf(clientSecret), secret });
    },
    has: ({ clientId, secret }: ApplicationRow, clientSecret: string): boolean => {
      const known = byClientId.get(clientId);
      return known?.secret === secret && timingSafeEqual(known.digest, digestOf(clientSecret));
    },
    forget: (clientId: string): void => void byClientId.delete(clientId),
  };
}

function withoutSecret({ secret: _secret, ...application }: ApplicationRow): Application {
  return application;
}

function checkNames(organizationName: string, clientId: string): void {
  if (!isPlainName(organizationName)) {
    throw usage(`Expected as the name of an organization ${plainNameRule}.`);
  }
  if (!isPlainName(clientId)) throw usage(`Expected as a client id ${plainNameRule}.`);
}

function checkSecret(secret: string): void {
  if (secret.length > 0 && hasAtMostCharacters(secret, maxSecretLength) && secret.isWellFormed()) return;
  throw usage(
    `Expected a client secret of 1 to ${maxSecretLength} characters, got ${secret.isWellFormed() ? Array.from(secret).length : 'half a character'}.`,
  );
}

const mostAtOnce = 2;
/** Of all senders together. */
const mostWaiting = 64;
const mostWaitingPerSender = 8;

/**
 * Limits how much of a costly work runs at once. Senders take turns, so that one who asks much waits behind itself
 * alone; of one sender the order of asking counts. Throws `ApiError` 429 at once when too much waits: a crowd that
 * guesses costs this process a bounded part of its time and memory.
 */
function takeTurns(): <Result>(sender: string, work: () => Promise<Result>) => Promise<Result> {
  let running = 0;
  let queued = 0;
  /** Senders in the order of their next turn, each with at least one waiting. */
  const queues = new Map<string, (() => void)[]>();

  const turn = (sender: string): Promise<void> => {
    if (running < mostAtOnce) {
      running += 1;
      return Promise.resolve();
    }
    const queue = queues.get(sender) ?? [];
    if (queue.length >= mostWaitingPerSender || queued >= mostWaiting) throw tooMany();
    queued += 1;
    queues.set(sender, queue);
    // The one that ends hands its turn on, so `running` stays.
    return new Promise((resolve) => queue.push(resolve));
  };
  const handOn = (): void => {
    const [next] = queues;
    if (next === undefined) {
      running -= 1;
      return;
    }
    const [sender, queue] = next;
    queued -= 1;
    const begin = queue.shift();
    queues.delete(sender);
    if (queue.length > 0) queues.set(sender, queue);
    begin?.();
  };
  return async (sender, work) => {
    await turn(sender);
    try {
      return await work();
    } finally {
      handOn();
    }
  };
}

function tooMany(): ApiError {
  return new ApiError(429, 'Too many sign-ins wait to be checked; try again later.', {
    errorCode: 'too_many_requests',
    headers: { 'retry-after': '1' },
  });
}
