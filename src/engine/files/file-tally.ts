import type { EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import type { FileFailure, FileFolder, LeftFiles } from '../../sinks/files.ts';
import type { FailureReport, FileReport } from '../../sinks/run-report.ts';
import type { FileSource } from '../../source/source.ts';
import { knownOrMade } from '../../core/known-or-made.ts';

export interface FileOptions {
  readonly source: FileSource;
  readonly folder: FileFolder;
  readonly entities: ReadonlySet<EntityName>;
  readonly maxBytes: number;
}

type Sums = { -readonly [Part in 'stored' | 'bytes' | 'failed']: FileReport[Part] };

/** No more are kept: there may be as many failures as files. */
const keptFailures = 100;

export function fileTally() {
  const sums = new Map<EntityName, Sums>();
  const failures: FailureReport[] = [];
  let failed = 0;

  const of = (entity: EntityName): Sums =>
    knownOrMade(sums, entity, () => ({ stored: 0, bytes: 0, failed: 0 }));

  return {
    stored: (entity: EntityName, bytes: number): void => {
      const sum = of(entity);
      sum.stored += 1;
      sum.bytes += bytes;
    },
    setAside: (entity: EntityName, params: Params, { code, recovery, message }: FileFailure): void => {
      of(entity).failed += 1;
      failed += 1;
      if (failures.length < keptFailures) failures.push({ entity, params, code, recovery, message });
    },
    /** By entity, in the order in which they were met; `left`: what is wanted at the end. */
    entities: (left: readonly LeftFiles[]): readonly FileReport[] => {
      for (const { entity } of left) of(entity);
      const leftOf = new Map(left.map(({ entity, files }) => [entity, files]));
      return Array.from(sums, ([entity, sum]) => ({ entity, ...sum, left: leftOf.get(entity) ?? 0 }));
    },
    /** At most `limit` of them are reported. */
    failures: (limit: number) => {
      const reported = failures.slice(0, Math.max(0, limit));
      return { reported, omitted: failed - reported.length };
    },
    /** True when a file that was asked for did not come. */
    isDegraded: (): boolean => failed > 0,
  };
}
