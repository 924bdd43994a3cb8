import { randomBytes } from 'node:crypto';
import { SyncError } from '../../../core/errors.ts';
import { isWeakSecret } from '../../../core/hide-secrets.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { openApplications, type StoredApplications } from '../applications/open-applications.ts';
import type { CommandContext } from '../../command-context.ts';
import { servedOrganization } from './served-accounts.ts';

/**
 * Who may come in: as the environment says, made up at this start, or one that an earlier start or a command has made.
 */
export type ChosenApplication =
  | { readonly kind: 'given' | 'made-up'; readonly clientId: string; readonly clientSecret: Secret }
  | { readonly kind: 'there'; readonly clientId: string };

/** So long a start waits for a service that is just ending. */
const patienceMs = 3_000;
const betweenLooksMs = 100;

/** Throws USAGE where the environment gives half of it, or another process has the folder and keeps it. */
export async function chooseApplication(context: CommandContext, folder: string): Promise<ChosenApplication> {
  const given = givenApplication(context.env);
  using applications = await openSoon(context, folder);
  if (given !== null) return given;
  const there = applications?.list(servedOrganization)[0];
  return there === undefined
    ? { kind: 'made-up', clientId: 'local', clientSecret: madeUpSecret() }
    : { kind: 'there', clientId: there.clientId };
}

function givenApplication(env: CommandContext['env']): ChosenApplication | null {
  const clientId = env['CONNECTOR_SYNC_CLIENT_ID'] ?? '';
  const clientSecret = env['CONNECTOR_SYNC_CLIENT_SECRET'] ?? '';
  if ((clientId === '') !== (clientSecret === '')) {
    throw usage(
      'Expected both CONNECTOR_SYNC_CLIENT_ID and CONNECTOR_SYNC_CLIENT_SECRET, or neither; one is not set.',
    );
  }
  if (clientId !== '' && isWeakSecret(clientSecret)) {
    throw usage(
      'CONNECTOR_SYNC_CLIENT_SECRET: expected at least 8 characters, and more than a word or a number; "openssl rand -base64 24" makes one.',
    );
  }
  return clientId === '' ? null : { kind: 'given', clientId, clientSecret: new Secret(clientSecret) };
}

/** Who ends a service and starts it again at once must not find its folder still locked. */
async function openSoon(
  { clock, signal }: CommandContext,
  folder: string,
): Promise<StoredApplications | null> {
  const endMs = clock.now() + patienceMs;
  for (;;) {
    try {
      return await openApplications(folder, clock, { isMade: false, isShared: false });
    } catch (error) {
      const isWorthIt = error instanceof SyncError && error.code === 'USAGE' && error.recovery === 'retry';
      if (!isWorthIt || clock.now() > endMs) throw error;
      await clock.sleep(betweenLooksMs, signal);
    }
  }
}

/** 192 bits. */
export function madeUpSecret(): Secret {
  return new Secret(randomBytes(24).toString('base64url'));
}
