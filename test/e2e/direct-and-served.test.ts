import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { testCredentials as application } from '../support/sync-once.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { openDirectWorld, worldRows, type DirectWorld } from '../support/upstream/direct-world.ts';
import { serveWorlds, throughApi } from '../support/upstream/served-world.ts';
import { mailchimpWorld, notionWorld } from '../support/upstream/upstream-world.ts';

it('takes an account over from direct to served and back, and from and to an API that names no account, without a row rewritten', async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world);
  const served = await serveWorlds([world]);
  const servedId = await served.connect(world);
  const hosted = await serveSamples({
    port: 0,
    ...application,
    definitions: new Map([[world.definition.name, world.definition]]),
    accounts: [
      {
        connectorId: 'c-hosted',
        definitionName: world.definition.name,
        workspace: 'default',
        seed: 1,
        size: 'tiny',
        account: world.fake.account,
      },
    ],
  });
  onTestFinished(() => hosted.close());
  const own = readFileSync(direct.config, 'utf8');
  const readOwn = (): void => writeFileSync(direct.config, own);
  const readThrough = (url: string, id: string): void =>
    writeFileSync(direct.config, throughApi(own, url, id));

  expect((await direct.cli('sync')).code).toBe(0);
  const first = allRows(direct);

  readThrough(served.service.url, servedId);
  expect((await direct.cli('sync')).code).toBe(2);
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  await fullSync(direct);
  expect(allRows(direct)).toEqual(first);

  readThrough(hosted.url, 'c-hosted');
  const refused = await direct.cli('sync');
  expect({ code: refused.code, names: refused.stderr.includes('connector-sync adopt mine') }).toEqual({
    code: 2,
    names: true,
  });
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  await fullSync(direct);
  expect(allRows(direct)).toEqual(first);

  readOwn();
  expect((await direct.cli('sync')).code).toBe(2);
  expect((await direct.cli('check')).code).toBe(2);
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  await fullSync(direct);
  expect(allRows(direct)).toEqual(first);
});

it('reads the same of Notion directly and through serve', async () => {
  await using world = await notionWorld({ as: 'my-notes' });
  await using direct = openDirectWorld(world, {
    settings: '    entities: { comments: { parents: [pages, blocks] } }\n',
  });
  const served = await serveWorlds([world]);
  const id = await served.connect(world);
  expect((await direct.cli('sync')).code).toBe(0);
  const first = allRows(direct);
  writeFileSync(direct.config, throughApi(readFileSync(direct.config, 'utf8'), served.service.url, id));
  expect((await direct.cli('adopt', 'mine', '--yes')).code).toBe(0);
  await fullSync(direct);
  expect(allRows(direct)).toEqual(first);
  const found = differencesFrom(worldRows(world), world.definition, (table) => direct.stored(table));
  expect(found).toEqual(noDifferences);
});

it("refuses another account's key before anything is read, and keeps what is stored", async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using other = await mailchimpWorld({ as: 'my-mail', accountName: 'Another company', seed: 77 });
  await using direct = openDirectWorld(world);
  expect((await direct.cli('sync')).code).toBe(0);
  const before = allRows(direct);
  await using wrong = openDirectWorld(other);
  writeFileSync(direct.config, readFileSync(wrong.config, 'utf8').replace(/MY_API_KEY/, 'OTHER_API_KEY'));
  direct.env['OTHER_API_KEY'] = wrong.env['MY_API_KEY'] ?? '';
  const asked = other.fake.requests.length;
  const refused = await direct.cli('sync');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('was synced from another origin');
  // The other one has another port.
  expect(other.fake.requests.length - asked).toBe(0);
  expect(allRows(direct)).toEqual(before);
});

async function fullSync(direct: DirectWorld): Promise<void> {
  const { code, stdout, stderr } = await direct.cli('sync', '--full');
  if (code !== 0) throw new Error(stdout + stderr);
}

/** Every row of every table, with the number of its last change. */
function allRows({ database }: DirectWorld): readonly unknown[] {
  const db = new Database(database, { readonly: true });
  try {
    const tables = db
      .prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'mine\\_\\_%' ESCAPE '\\' ORDER BY 1",
      )
      .pluck()
      .all() as readonly string[];
    return tables.flatMap((name) =>
      db.prepare(`SELECT '${name}' AS t, _seq, _hash, _deleted_at FROM "${name}" ORDER BY _seq`).all(),
    );
  } finally {
    db.close();
  }
}
