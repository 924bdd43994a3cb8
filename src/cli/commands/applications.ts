import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { Secret } from '../../core/secret.ts';
import { defaultMaxTokens, defaultTokenSeconds } from '../../service/server-limits.ts';
import type { ServiceState } from '../../service/state/open-service-state.ts';
import { toTheSecond } from '../../telemetry/format.ts';
import { command, type CommandContext } from '../command.ts';
import { shellWord } from '../environment.ts';
import { leftColumns, textTable } from '../output/text-table.ts';

const servedOrganization = 'default';
export const defaultDataFolder = './data/service';

const dataOption = { '--data <folder>': { text: 'of the service', default: defaultDataFolder } } as const;

export const applications = command({
  help: `
Examples:
  $ connector-sync applications create
  $ connector-sync applications create --organization acme
  $ connector-sync applications list
  $ connector-sync applications delete client-4f1c09a7b2d3

Changes apply at once, even while "connector-sync serve" runs on the folder. Organizations see nothing of each other.`,
  commands: {
    create: command({
      description: 'Generate a client id and a secret, and print them; the secret is shown this once.',
      options: {
        ...dataOption,
        '--organization <name>': {
          text: 'owning organization; created if missing',
          default: servedOrganization,
        },
      },
      run: async ({ terminal, clock, cwd }, { data, organization }) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: true });
        const clientSecret = madeUpSecret().reveal();
        const clientId = `client-${randomBytes(6).toString('hex')}`;
        state?.applications.put({ organizationName: organization, clientId, clientSecret });
        terminal.printJson({ organization, clientId, clientSecret });
        terminal.print(
          `New client of organization ${organization}; its secret is shown this once:`,
          `  client id      ${clientId}`,
          `  client secret  ${clientSecret}`,
        );
      },
    }),
    list: command({
      description: 'List client ids, organizations and creation times. Secrets cannot be shown.',
      options: { ...dataOption, '--organization <name>': 'of this one alone' },
      run: async ({ terminal, clock, cwd }, { data, organization }) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: false });
        const found = (state?.applications.list() ?? []).filter(
          (one) => organization === undefined || one.organizationName === organization,
        );
        terminal.printJson({
          applications: found.map(({ clientId, organizationName, organizationId, createdAt }) => ({
            clientId,
            organization: organizationName,
            organizationId,
            createdAt,
          })),
        });
        const rows = found.map(({ clientId, organizationName, createdAt }) => [
          clientId,
          organizationName,
          toTheSecond(Date.parse(createdAt)),
        ]);
        if (rows.length === 0) terminal.print(`There are no clients in ${data} yet.`);
        else terminal.print(...textTable(leftColumns('client id', 'organization', 'made'), rows));
      },
    }),
    delete: command({
      description: 'Delete a client: its secret and tokens stop working. Workspaces and connectors stay.',
      argument: ['<client-id>', 'see "connector-sync applications list"'],
      options: dataOption,
      run: async ({ terminal, clock, cwd, program }, { data }, clientId) => {
        using state = await openStoredState(resolve(cwd, data), clock, { isMade: false });
        if (state?.applications.delete(clientId) !== true) {
          throw usage(
            `There is no client ${clientId} in ${data}. See "${program} applications list --data ${shellWord(data)}".`,
          );
        }
        terminal.printJson({ deleted: clientId });
        terminal.print(`${clientId} is deleted: its secret and tokens stop working.`);
      },
    }),
  },
});

/**
 * The client that may connect: configured by the environment, generated at this start, or created by an earlier start
 * or a command.
 */
export type ChosenApplication =
  | { readonly kind: 'given' | 'made-up'; readonly clientId: string; readonly clientSecret: Secret }
  | { readonly kind: 'there'; readonly clientId: string };

/** The stored hash of a shorter secret could be guessed. */
const shortestSecret = 16;
/** How long a start waits for a service that is about to end. */
const patienceMs = 3_000;
const betweenLooksMs = 100;

/** Throws USAGE where the environment has only one of the two variables, or another process keeps the folder. */
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

/** Retries, so that a service which is restarted at once does not find its folder still locked. */
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
function madeUpSecret(): Secret {
  return new Secret(randomBytes(24).toString('base64url'));
}

/**
 * Opens the data of a service, which may be running on it. Null if there is none and none is to be created. `isShared`
 * false: throws `SyncError` USAGE, recovery `retry`, while a service runs on it.
 */
export async function openStoredState(
  folder: string,
  clock: Clock,
  { isMade, isShared = true }: { readonly isMade: boolean; readonly isShared?: boolean },
): Promise<ServiceState | null> {
  if (!isMade && !existsSync(join(folder, 'service.db'))) return null;
  // Loaded only where it is used: it would slow the start of every other command.
  const { openServiceState } = await import('../../service/state/open-service-state.ts');
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
