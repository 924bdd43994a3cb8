import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import type { SampleAccount } from '../../../src/sample/sample-account.ts';
import { cliSecret } from '../cli-world.ts';
import { listingOf } from '../listing-of.ts';
import { openProgram } from '../program.ts';
import { serveSamples } from '../serve-samples.ts';
import { noRedis, script } from './status-world.ts';

/** A value that no page shows to a visitor without the right to see values. */
export const seen = 'value-that-is-seen';
/** A value that a mask drops or hashes, and that no page shows to anybody. */
export const masked = 'value-behind-the-mask';
export const longText = `begin ${'long '.repeat(200_000)}end`;

export type DataWorld = Awaited<ReturnType<typeof openDataWorld>>;

/** Connectors with the same records in sinks of each kind: changed, deleted, missing and refused ones among them. */
export async function openDataWorld(postgresUrl: string) {
  let round = 1;
  const definitionName = 'email-marketing';
  const account = createSampleAccount({ definitionName, seed: 3, size: 'tiny' });
  const lists = () =>
    [
      {
        id: 'first',
        name: `${seen} ${round === 1 ? 'before' : 'after'}`,
        notify_on_subscribe: masked,
        web_id: 10,
      },
      {
        id: `a/b ${script}'"`,
        name: script,
        web_id: 20,
        stats: { member_count: 3, note: script },
        [script]: script,
      },
      { id: 'long', name: 'long', subscribe_url_long: longText, web_id: 30 },
      ...(round < 2 ? [{ id: 'gone', name: `${seen} gone`, web_id: 40 }] : []),
      ...(round < 3 ? [{ id: 'late', name: `${seen} departed`, web_id: 42 }] : []),
      ...(round < 4 ? [{ id: 'fading', name: 'fading', web_id: 45 }] : []),
      { name: `refused ${seen}`, web_id: 50 },
    ].map((record) => ({ date_created: '2026-02-03T04:05:06+00:00', ...record }));
  const wrap = (): SampleAccount => ({
    ...account,
    list: (entity, params) => {
      if (entity === 'lists') return listingOf(lists(), { total_items: lists().length });
      if (entity !== 'list_members') return account.list(entity, params);
      const members = params['list_id'] === 'first' ? ['m1', 'm2'] : [];
      return listingOf(
        members.map((id) => ({ id, list_id: 'first', email_address: `${id}@example.com`, full_name: seen })),
        { total_items: members.length },
      );
    },
    get: (entity, params) =>
      entity === 'lists'
        ? (lists().find((one) => 'id' in one && one.id === params['list_id']) ?? null)
        : null,
  });
  const service = await serveSamples({
    port: 0,
    clientId: 'local',
    clientSecret: cliSecret,
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [{ workspace: 'default', connectorId: 'c-shop', definitionName, seed: 3, size: 'tiny', wrap }],
  });
  const mask = 'mask: { lists: { fields: { notify_on_subscribe: hash } } }';
  const few = (more = '') =>
    `definition: ${definitionName}, id: c-shop, include: [lists, list_members${more}], rateLimit: { requestsPerSecond: 1000 }`;
  const configText = `api: { baseUrl: "${service.url}", clientId: local, clientSecret: "${cliSecret}" }
redis: { url: "${noRedis}" }
mask: { key: "${Buffer.alloc(32, 7).toString('base64')}" }
sinks:
  main: { type: sqlite, path: ./main.db, durability: normal }
  lines: { type: jsonl, directory: ./lines, durability: normal }
  wide: { type: postgres, url: "${postgresUrl}", schema: raw, durability: normal }
guards: { maxDeleteShare: 0, minDeleteRows: 0 }
publish:
  lake: { type: files, directory: ./lake, format: parquet, connectors: [shop] }
connectors:
  shop: { ${few(', campaigns')}, sink: main, history: true, freshWithin: 1h, ${mask} }
  house: { ${few()}, sink: wide, history: true, ${mask} }
  files: { ${few()}, sink: lines`;
  const program = openProgram(`${configText} }
http:
  tokens:
    anna: { token: token-of-anna-0123, may: [pages, data, act] }
    bob: { token: token-of-bob-012345 }
`);
  const open = join(program.folder, 'open.yaml');
  writeFileSync(open, `${configText}, ${mask} }\n`);
  const names = ['shop', 'files', 'house'];
  const synced = [await program.cli('sync', ...names)];
  round = 2;
  synced.push(await program.cli('sync', '--full', '--allow-deletes', ...names));
  round = 3;
  synced.push(await program.cli('sync', '--full', '--allow-deletes', ...names));
  round = 4;
  synced.push(await program.cli('sync', '--full', ...names));
  return {
    ...program,
    names,
    synced,
    /** The same without tokens, with a mask that no sync has applied to `files`. */
    open,
    database: join(program.folder, 'main.db'),
    [Symbol.asyncDispose]: async () => {
      await service.close();
      await program[Symbol.asyncDispose]();
    },
  };
}
