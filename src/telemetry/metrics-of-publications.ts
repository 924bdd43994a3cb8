import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';

/**
 * How a publication that a worker was asked for ended. `createdAtMs`: of the newest publication that the target holds.
 */
export type EndedPublication =
  | (NewestPublication & { readonly kind: 'published'; readonly rows: number; readonly ms: number })
  | (NewestPublication & { readonly kind: 'unchanged' })
  /** The sink holds nothing to publish yet. */
  | { readonly kind: 'nothing-stored' }
  | { readonly kind: 'failed' };

interface NewestPublication {
  readonly publication: number;
  readonly createdAtMs: number;
}

interface PublicationCounts {
  onPublication(target: string, ended: EndedPublication): void;
}

/** A config has few targets, so each has series of its own. They begin with the first publication of this process. */
export function countPublications(registry: Registry, clock: Clock): PublicationCounts {
  const registers = [registry];
  const labelNames = ['target'] as const;
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `connector_sync_publication_${name}`, help, labelNames, registers });
  const results = new Counter({
    name: 'connector_sync_publications_total',
    help: 'Publications that were asked for, by how they ended: published, unchanged (nothing was new), nothing-stored, failed.',
    labelNames: ['target', 'result'],
    registers,
  });
  const rows = new Counter({
    name: 'connector_sync_published_rows_total',
    help: 'Changed rows that were published, deletes included.',
    labelNames,
    registers,
  });
  const number = gauge('newest_number', 'Number of the newest publication of the target.');
  const createdAt = gauge('newest_timestamp_seconds', 'When the newest publication was made.');
  const upToDateAt = gauge(
    'up_to_date_timestamp_seconds',
    'When the target last had everything that is stored: something was published, or nothing was new.',
  );
  const duration = gauge('duration_seconds', 'How long the last publication took.');
  return {
    onPublication(target, ended) {
      // A rate cannot see a counter that begins at one.
      for (const result of ['published', 'unchanged', 'failed']) results.inc({ target, result }, 0);
      results.inc({ target, result: ended.kind });
      if (ended.kind === 'failed' || ended.kind === 'nothing-stored') return;
      number.set({ target }, ended.publication);
      createdAt.set({ target }, ended.createdAtMs / 1000);
      upToDateAt.set({ target }, clock.now() / 1000);
      if (ended.kind === 'unchanged') return;
      rows.inc({ target }, ended.rows);
      duration.set({ target }, Math.max(0, ended.ms) / 1000);
    },
  };
}
