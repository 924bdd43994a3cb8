import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { openSink } from '../../src/sinks/registry.ts';
import { it } from '../support/it.ts';
import { callCli } from '../support/run-cli.ts';
import { instantClock } from '../support/instant-clock.ts';
import { unpackFolder } from '../support/stored/packed-files.ts';

/* `test/fixtures/stored/README.md` says what the publication holds. */

const config = `api: { baseUrl: 'https://api.example.test', clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  warehouse: { type: sqlite, path: ./sink/warehouse.db }
connectors:
  email-marketing: { definition: email-marketing, id: mailing, sink: warehouse }
  workspace-notes: { definition: workspace-notes, id: notes, sink: warehouse }
  document-library: { definition: document-library, id: library, sink: warehouse }
publish:
  lake: { type: files, directory: ./lake, format: csv }
`;

// Proves promise 1.7
it('a publication that the oldest version has made is continued, before and after its sink is migrated', async ({
  fileFolder: folder,
}) => {
  unpackFolder('sqlite.json.br', path.join(folder, 'sink'));
  unpackFolder('publication.json.br', path.join(folder, 'lake'));
  writeFileSync(path.join(folder, 'sync.yaml'), config, { mode: 0o600 });
  const expectContinued = async (): Promise<void> => {
    const again = await callCli(['publish', '-c', 'sync.yaml'], { cwd: folder });
    expect(again).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^lake: nothing new since publication 1 of/),
    });
    const checked = await callCli(['publish', 'check', '-c', 'sync.yaml'], { cwd: folder });
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringContaining('407 rows: all as published') });
  };
  await expectContinued();
  const file = path.join(folder, 'sink/warehouse.db');
  const sink = await openSink(
    { type: 'sqlite', name: 'warehouse', path: file, durability: 'normal' },
    { clock: instantClock() },
  );
  await sink[Symbol.asyncDispose]();
  await expectContinued();
});
