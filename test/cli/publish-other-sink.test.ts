import { appendFileSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';

it('replaces rows of another sink only with --new-generation', async () => {
  await using world = await openCliWorld({ settings: '    include: [lists, campaigns]\n' });
  appendFileSync(world.config, 'publish:\n  lake: { type: files, directory: ./lake, format: jsonl }\n');
  await world.json('sync', 'newsletter');
  for (const name of readdirSync(world.folder).filter((one) => one.startsWith('main.db'))) {
    rmSync(path.join(world.folder, name));
  }
  // A sync that ends well: what it could not publish is no fault of its own.
  const synced = await world.cli('sync', 'newsletter');
  expect([synced.code, synced.stderr]).toEqual([
    0,
    expect.stringMatching(/^Warning: target lake was not published to.*holds publication 1 of another sink/m),
  ]);
  const refused = await world.cli('publish', 'lake');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('replace all published rows: publish lake --new-generation.');
  expect((await world.cli('publish', 'status')).stdout).toContain(
    '! Target lake holds publication 1 of another sink',
  );
  const checked = await world.cli('check');
  expect([checked.code, checked.stdout]).toEqual([
    2,
    expect.stringMatching(/^✗ target lake: Target lake holds/m),
  ]);

  expect((await world.cli('publish', 'lake', '--new-generation')).stdout).toMatch(/^lake: publication 2: /);
  await expect(world.json('publish', 'lake')).resolves.toMatchObject([{ result: 'unchanged' }]);
});
