import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { maskStored } from '../../src/app/purge-records.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import type { ConnectorSettings } from '../../src/settings/settings.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { jsonLines } from '../support/run-cli.ts';
import { killedCopies } from '../support/sinks/killed-copies.ts';
import { isLong, triedSinks } from '../support/trials.ts';

const mask = `    mask: { list_members: { fields: { email_address: { hash: { as: email } }, vip: hash } } }\n`;
/** In `npm test` a kill in front of one statement of so many. */
const killsAtEach = isLong ? 1 : 9;
const how = { clock: systemClock, targets: [], signal: new AbortController().signal };

/** A sink with a member that was deleted before there was a mask; its address is in clear. */
async function synced(sink: (typeof triedSinks)[number]) {
  const world = await openCliWorld({ sink, settings: sink === 'jsonl' ? '' : '    history: true\n' });
  onTestFinished(() => world[Symbol.asyncDispose]());
  appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n`);
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const emailById = new Map(
    jsonLines(await world.cli('export', 'newsletter/list_members')).map((row) => [
      row['id'],
      row['email_address'],
    ]),
  );
  world.moveTo(3);
  await world.json('sync', 'newsletter', '--select', 'list_members', '--full', '--allow-deletes');
  writeFileSync(world.config, readFileSync(world.config, 'utf8').replace('  wiki:\n', `${mask}  wiki:\n`));
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const gone = jsonLines(await world.cli('export', 'newsletter/list_members')).find(
    (row) => row['_op'] === 'delete' && emailById.has(row['id']),
  );
  const connector = loadSettings({ file: world.config, env: world.env }).connectors.get(
    'newsletter' as ConnectorName,
  );
  if (connector === undefined) throw new Error('the config has it');
  return { world, connector, email: String(emailById.get(gone?.['id'])) };
}

async function isMentioned(world: CliWorld): Promise<boolean> {
  return (await world.cli('status', 'newsletter')).stdout.includes('mask of');
}

// Proves promise 10.6
it.each(triedSinks.filter((sink) => sink !== 'postgres'))(
  'a rewrite of what is stored without its mask in a %s sink is completed by the next one after a kill at any step',
  async (sink) => {
    const { world, connector, email } = await synced(sink);
    expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
    const killed = await killedCopies(
      world.folder,
      killsAtEach,
      async () => await maskStored(connector, how),
    );
    expect(killed.length).toBeGreaterThan(3);
    for (const [at, folder] of killed.entries()) {
      expect((await maskStored(sinkIn(connector, folder), how)).left).toEqual([]);
      expect(filesWith(folder, email), `kill ${at}`).toEqual([]);
    }
    expect(await isMentioned(world)).toBe(false);
  },
  240_000,
);

function sinkIn(connector: ConnectorSettings, folder: string): ConnectorSettings {
  const { sink } = connector;
  if (sink.type === 'postgres') throw new TypeError('a server is no folder');
  const moved =
    sink.type === 'sqlite'
      ? { ...sink, path: join(folder, 'main.db') }
      : { ...sink, directory: join(folder, 'main') };
  return { ...connector, sink: moved };
}

it.each(triedSinks)('says that values are in clear until all of a %s sink is rewritten', async (sink) => {
  const { world, connector } = await synced(sink);
  const failing = new Map(
    [...connector.masks].map(([entity, { rules, mask: own }]) => {
      let calls = 0;
      const stored: typeof own.stored = (value) => {
        calls += 1;
        if (calls === 40) throw new Error('killed');
        return own.stored(value);
      };
      return [entity, { rules, mask: { ...own, stored } }];
    }),
  );
  await expect(maskStored({ ...connector, masks: failing }, how)).rejects.toThrow('killed');
  expect(await isMentioned(world)).toBe(true);
  await maskStored(connector, how);
  expect(await isMentioned(world)).toBe(false);
  await expect(maskStored({ ...connector, masks: new Map() }, how)).rejects.toThrow('has no mask');
});
