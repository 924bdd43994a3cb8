import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readManifest } from '../../src/publish/manifest.ts';
import { openScheduledWorld, scheduledSinks } from '../support/scheduled-world.ts';
import { freePort } from '../support/redis.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

describe.each(scheduledSinks)('a worker of a %s sink', (sinkType) => {
  // Proves promise 20.9
  it('publishes after the syncs of a worker, whole, and says so in log and metrics', async () => {
    const connector = {
      name: 'news',
      definition: 'email-marketing',
      size: 'tiny',
      schedule: '{ every: 1h }',
    };
    await using world = await openScheduledWorld({ sinkType, connectors: [{ ...connector, size: 'tiny' }] });
    appendFileSync(
      world.config,
      `publish:
  lake: { type: files, directory: ./lake, format: jsonl }
  mart: { type: files, directory: ./mart, format: jsonl, when: { every: 10s } }
  hand: { type: files, directory: ./hand, format: jsonl, when: by-hand }
`,
    );
    const port = await freePort();
    const worker = startWorkerProcess(world, {}, { listen: { host: '127.0.0.1', port } });
    const published = await worker.until(({ msg, target }) => msg === 'published' && target === 'lake');
    expect(published).toMatchObject({ publication: 1 });
    await worker.until(({ msg, target }) => msg === 'publication job ended' && target === 'mart');
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toContain('connector_sync_publications_total{target="lake",result="published"} 1');
    expect(metrics).toContain('connector_sync_publication_newest_number{target="lake"} 1');
    expect(metrics).toContain(
      `connector_sync_published_rows_total{target="lake"} ${String(published['rows'])}`,
    );
    worker.child.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 0 });
    const { manifest } = readManifest(
      readFileSync(path.join(world.folder, 'lake/_publications/00000000000000000001.json'), 'utf8'),
    );
    const stored = world.ledger('SELECT count(*) AS rows FROM news__list_members');
    const members = manifest.entities.find(({ entity }) => entity === 'list_members');
    expect(stored.map((row) => Number(Object.values(row ?? {})[0]))).toEqual([members?.upserts]);
    expect(readdirSync(world.folder)).not.toContain('hand');
  });
});
