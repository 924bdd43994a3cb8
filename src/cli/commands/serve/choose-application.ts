import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../core/clock.ts';
import { SyncError } from '../../../core/errors.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { defaultMaxTokens, defaultTokenSeconds } from '../../../service/server-limits.ts';
import type { ServiceState } from '../../../service/state/open-service-state.ts';
import type { CommandContext } from '../../command.ts';

export const servedOrganization = 'default';
export const defaultDataFolder = './data/service';

/**
 * The client that is let in: as the environment configures it, generated at this start, or one that an earlier start or
 * a command has made.
 */
export type ChosenApplication =
  | { readonly kind: 'given' | 'made-up'; readonly clientId: string; readonly clientSecret: Secret }
  | { readonly kind: 'there'; readonly clientId: string };

/** The stored hash of a shorter one could be guessed against. */
const shortestSecret = 16;
/** So long a start waits for a service that is just ending. */
const patienceMs = 3_000;
const betweenLooksMs = 100;

/** Throws USAGE where the environment gives half of it, or another process has the folder and keeps it. */
export async function chooseApplication(context: CommandContext, folder: string): Promise<ChosenApplication> {
  const given = givenApplication(context.env);
  using state = await openSoon(context, folder);
  if (given !== null) return given;
  const there = state?.applications.list().find((one) => one.organizationName === servedOrganization);
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
  if (clientId !== '' && clientSecret.length < shortestSecret) {
    throw usage(
      `CONNECTOR_SYNC_CLIENT_SECRET: expected at least ${shortestSecret} random characters; "openssl rand -base64 24" makes them.`,
    );
  }
  return clientId === '' ? null : { kind: 'given', clientId, clientSecret: new Secret(clientSecret) };
}

/** A service that is stopped and started again at once must not find its folder still locked. */
async function openSoon({ clock, signal }: CommandContext, folder: string): Promise<ServiceState | null> {
  const endMs = clock.now() + patienceMs;
  for (;;) {
    try {
      return await openStoredState(folder, clock, { isMade: false, isShared: false });
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

/**
 * Opens the data of a service, which may be running on it. Null where there is none and none is to be made. `isShared`
 * false: throws `SyncError` USAGE, recovery `retry`, while a service runs on it.
 */
export async function openStoredState(
  folder: string,
  clock: Clock,
  { isMade, isShared = true }: { readonly isMade: boolean; readonly isShared?: boolean },
): Promise<ServiceState | null> {
  if (!isMade && !existsSync(join(folder, 'service.db'))) return null;
  // Loaded only where it is used: it would slow the start of every other command.
  const { openServiceState } = await import('../../../service/state/open-service-state.ts');
  return openServiceState({
    folder,
    isShared,
    key: null,
    clock,
    tokenTtlSeconds: defaultTokenSeconds,
    maxTokens: defaultMaxTokens,
    tokensPerSecond: 0,
  });
}
