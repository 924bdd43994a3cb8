import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { openDirectWorld, worldRows, type DirectWorld } from '../support/upstream/direct-world.ts';
import { deskWorld, mailchimpWorld, notionWorld } from '../support/upstream/upstream-world.ts';

const withBlocks = '    entities: { comments: { parents: [pages, blocks] } }\n';

const services = [
  ['Mailchimp', () => mailchimpWorld({ as: 'my-mail', size: 'tiny' }), ''],
  ['Notion', () => notionWorld({ as: 'my-notes', size: 'tiny' }), withBlocks],
  ['a help desk', () => deskWorld({ as: 'my-desk' }), '    exclude: [exports]\n'],
] as const;

describe('a connector with its own credentials, and no API', () => {
  it.each(services)(
    'stores every record of %s as the service has it, and writes nothing the second time',
    async (_name, openWorld, settings) => {
      await using world = await openWorld();
      await using direct = openDirectWorld(world, { settings });
      const result = await direct.cli('sync');
      expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
      const differences = differencesFrom(worldRows(world), world.definition, (table) =>
        direct.stored(table),
      );
      expect(differences).toEqual(noDifferences);
      const [report] = (await direct.json('sync')).filter(({ kind }) => kind === 'report');
      expect(written(report)).toEqual({ inserted: 0, updated: 0, deleted: 0 });
      noSecretIn(direct, [result.stdout, result.stderr]);
    },
  );
});

it("reads a listing whose total is known in one call, as the service's answers say", async () => {
  await using world = await mailchimpWorld({ as: 'my-mail' });
  await using direct = openDirectWorld(world, { settings: '    include: [lists]\n' });
  expect((await direct.cli('sync')).code).toBe(0);
  // The check of the credentials, and one page.
  expect(world.fake.requests.map(({ path: asked }) => asked)).toEqual(['/3.0/', '/3.0/lists']);
});

function written(report: Record<string, unknown> | undefined): object {
  const { entities = [] } = (report ?? {}) as {
    entities?: readonly { counts: Record<'inserted' | 'updated' | 'deleted', number> }[];
  };
  const sum = (name: 'inserted' | 'updated' | 'deleted'): number =>
    entities.reduce((all, { counts }) => all + counts[name], 0);
  return { inserted: sum('inserted'), updated: sum('updated'), deleted: sum('deleted') };
}

/** Neither in the output of the program, nor in a file that it wrote. */
function noSecretIn({ folder, config, env }: DirectWorld, texts: readonly string[]): void {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => file !== config);
  expect(files.length).toBeGreaterThan(0);
  const written = [...texts, ...files.map((file) => readFileSync(file, 'latin1'))];
  for (const secret of Object.values(env)) {
    expect(written.some((text) => text.includes(secret))).toBe(false);
  }
}
