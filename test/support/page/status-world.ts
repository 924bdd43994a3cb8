import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JsonObject } from '../../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount, SampleSize } from '../../../src/sample/sample-account.ts';
import { listingOf } from '../listing-of.ts';
import { ApiError } from '../../../src/service/api-error.ts';
import { openHistory } from '../../../src/sinks/registry.ts';
import { cliSecret } from '../cli-world.ts';
import { openProgram } from '../program.ts';
import { serveSamples } from '../serve-samples.ts';

/** What a service may write anywhere, and what a page must show as text. */
export const script = '<script src="https://evil.example/x.js">alert(1)</script>';

/** Where its config looks for Redis: the machine's own would keep keys of one run for the next. */
export const noRedis = 'redis://127.0.0.1:1';

export type StatusWorld = Awaited<ReturnType<typeof openStatusWorld>>;

interface WorldOptions {
  readonly size?: SampleSize;
  /** How often `newsletter` is synced. */
  readonly runs?: number;
  /** What texts from outside end with: `script`, unless a person is to look at the pages. */
  readonly outside?: string;
}

/** A config whose connectors are in all states, and what they have stored. */
export async function openStatusWorld({ size = 'tiny', runs = 2, outside = script }: WorldOptions = {}) {
  /** From the second round on, services misbehave. */
  let round = 1;
  const sample = (definitionName: string): SampleAccount =>
    createSampleAccount({ definitionName, seed: 3, size });
  const wrapped = (
    connectorId: string,
    definitionName: string,
    list: (
      account: SampleAccount,
      ...call: Parameters<SampleAccount['list']>
    ) => ReturnType<SampleAccount['list']>,
    isGone: (entity: string) => boolean = () => false,
  ) => {
    const account = sample(definitionName);
    const wrap = (): SampleAccount => ({
      ...account,
      list: (...call) => list(account, ...call),
      get: (entity, params) => (isGone(entity) ? null : account.get(entity, params)),
    });
    return { workspace: 'default', connectorId, definitionName, seed: 3, size, wrap };
  };
  const mail = 'email-marketing';
  const service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      ...['c-newsletter', 'c-archive', 'c-new'].map((id) =>
        wrapped(id, mail, (account, ...call) => account.list(...call)),
      ),
      wrapped('c-notes', 'workspace-notes', (account, entity, params) => {
        if (round > 1 && entity === 'comments') {
          throw new ApiError(403, `The integration lacks the right ${outside}.`, { errorCode: 'forbidden' });
        }
        return account.list(entity, params);
      }),
      wrapped(
        'c-members',
        mail,
        (account, entity, params) => {
          const listing = account.list(entity, params);
          return round > 1 && entity === 'list_members' ? listingOf([], { total_items: 0 }) : listing;
        },
        (entity) => round > 1 && entity === 'list_members',
      ),
      wrapped('c-leads', mail, (account, entity, params) => {
        const listing = account.list(entity, params);
        return entity === 'automations'
          ? listingOf(
              listing.slice(0, Infinity).map((record) => ({
                ...withUndeclared(record, outside),
                ...(round > 1 ? { [`segment ${outside}`]: 'new since the first sync' } : {}),
              })),
              listing.metadata,
            )
          : listing;
      }),
      wrapped('c-crm', mail, (account, ...call) => {
        if (round > 1) throw new ApiError(401, `Signed out ${outside}`, { errorCode: 'unauthorized' });
        return account.list(...call);
      }),
    ],
  });
  const few = ', include: [lists, list_members, campaigns]';
  const connector = (name: string, id: string, definition = mail, more = ''): string =>
    `  ${name}: { definition: ${definition}, id: ${id}, sink: main, rateLimit: { requestsPerSecond: 1000 }${more} }\n`;
  const program = openProgram(
    `api: { baseUrl: "${service.url}", clientId: local, clientSecret: "${cliSecret}" }
redis: { url: "${noRedis}" }
sinks:
  main: { type: sqlite, path: ./main.db, durability: normal }
  away: { type: postgres, url: "postgresql://sync@127.0.0.1:1/warehouse", schema: raw }
connectors:
${connector('newsletter', 'c-newsletter', mail, ", schedule: { cron: '0 4 * * *' }, freshWithin: 1d")}${connector('team-notes', 'c-notes', 'workspace-notes', ', schedule: { every: 15m }')}${connector('members', 'c-members', mail, ', include: [lists, list_members]')}${connector('leads', 'c-leads', mail, ', freshWithin: 30m')}${connector('crm', 'c-crm', mail, `, schedule: { cron: '0 5 * * 1' }${few}`)}${connector('archive', 'c-archive', mail, `, schedule: { every: 1h }${few}`)}${connector('new-shop', 'c-new')}  warehouse: { definition: ${mail}, id: c-new, sink: away }
publish:
  lake: { type: files, directory: ./lake, format: parquet, connectors: [newsletter] }
`,
  );
  const { folder, config, cli } = program;
  const synced = ['newsletter', 'team-notes', 'members', 'leads', 'crm', 'archive'];
  await cli('sync', ...synced);
  round = 2;
  await cli('sync', '--full', 'team-notes', 'members', 'crm', 'leads');
  for (let run = 1; run < runs; run += 1) await cli('sync', 'newsletter');
  await cli('schedule', 'pause', 'archive', '--reason', `The account moves ${outside}`);
  return {
    folder,
    config,
    cli,
    configText: (): Promise<string> => readFile(config, 'utf8'),
    /** The ids of its runs, newest first. */
    runsOf: async (name: string): Promise<readonly string[]> => {
      await using history = await openHistory({ type: 'sqlite', path: join(folder, 'main.db') });
      return (await history.runs({ limit: 200 })).flatMap(({ connector: of, run }) =>
        of === name ? [run] : [],
      );
    },
    [Symbol.asyncDispose]: async () => {
      await service.close();
      await program[Symbol.asyncDispose]();
    },
  };
}

function withUndeclared(record: JsonObject, name: string): JsonObject {
  return { ...record, [name]: 'a field that nobody declared', tier: 'gold' };
}
