import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-world.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

let folder: string;
let config: string;
const services: Service[] = [];

it.beforeEach(async ({ folder: made }) => {
  folder = made;
  config = await writeCliConfig(folder, await serve(1));
  expect((await cli('sync', 'newsletter')).code).toBe(0);
});

afterEach(async () => {
  for (const service of services.splice(0)) await service.close();
});

it('adopts the same account at another address when asked to, and keeps every row', async () => {
  const before = storedRows();
  await moveTo(await serve(1));
  const shown = await cli('adopt', 'newsletter');
  expect(shown.code).toBe(0);
  expect(shown.stdout).toMatch(/^ {2}base URL +http:\S+ +http:\S+$/m);
  expect(shown.stdout).toContain('Nothing was sent to the new address.');
  expect((await cli('sync', 'newsletter')).code).toBe(2);

  const adopted = await cli('adopt', 'newsletter', '--yes', '--json');
  expect(adopted.code).toBe(0);
  expect(jsonLines(adopted)).toMatchObject([{ isAdopted: true, isAgreed: true }]);
  expect(jsonLines(adopted)[0]?.['entities']).toContainEqual(
    expect.objectContaining({ entity: 'campaigns', changed: 0, added: 0 }),
  );
  expect((await cli('sync', 'newsletter', '--full')).code).toBe(0);
  expect(storedRows()).toEqual(before);
  expect((await cli('adopt', 'newsletter')).stdout).toContain('there is nothing to adopt');
});

// Proves promise 4.2
it('refuses another account, and changes nothing', async () => {
  const before = storedRows();
  await moveTo(await serve(2));
  const refused = await cli('adopt', 'newsletter', '--yes');
  expect(refused.code).toBe(2);
  expect(refused.stdout).toContain('not adopted, the new address serves other records');
  expect((await cli('sync', 'newsletter')).code).toBe(2);
  expect(storedRows()).toEqual(before);
});

// Proves promise 4.2
it('withholds every delete until a full sync has found all rows at the new address', async () => {
  await moveTo(await serve(1));
  plantCampaign('zz-gone');
  expect((await cli('adopt', 'newsletter', '--yes')).code).toBe(0);
  for (const flags of [['--full'], ['--full'], []]) {
    const kept = await cli('sync', 'newsletter', ...flags);
    expect(kept.code).toBe(6);
  }
  expect((await cli('sync', 'newsletter', '--full')).stdout).toContain('was adopted from another address');
  expect((await cli('sync', 'newsletter', '--full', '--allow-deletes')).code).toBe(0);
  plantCampaign('zz-gone-later');
  expect((await cli('sync', 'newsletter', '--full')).code).toBe(0);
});

it('says that there is nothing to adopt where nothing is stored', async () => {
  const result = await cli('adopt', 'wiki');
  expect(result.code).toBe(2);
  expect(result.stderr).toContain('has no data of wiki');
});

function cli(...args: string[]): Promise<CliResult> {
  return callCli([...args, '--config', config], { cwd: folder, env: { SECRET: cliSecret } });
}

async function serve(seed: number): Promise<string> {
  const service = await startCliService({ seed });
  services.push(service);
  return service.url;
}

async function moveTo(url: string): Promise<void> {
  const text = await readFile(config, 'utf8');
  await writeFile(config, text.replace(/baseUrl: "[^"]*"/, `baseUrl: "${url}"`));
}

function storedRows(): unknown {
  const db = new Database(join(folder, 'main.db'), { readonly: true });
  const rows = db.prepare('SELECT entity, rows, deleted FROM _sync_tables ORDER BY entity').all();
  db.close();
  return rows;
}

/** A stored row that the service does not have: as if it had been deleted there since. */
function plantCampaign(id: string): void {
  const db = new Database(join(folder, 'main.db'));
  db.prepare(
    `INSERT INTO newsletter__campaigns (id, _first_seen_at, _changed_at, _run_id, _seq, _hash, _partition)
     SELECT ?, '2020', '2020', '', 1, 'x', id FROM _sync_partitions WHERE entity = 'campaigns'`,
  ).run(id);
  db.exec("UPDATE _sync_tables SET rows = rows + 1 WHERE entity = 'campaigns'");
  db.close();
}
