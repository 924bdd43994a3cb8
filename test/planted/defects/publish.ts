import type { Defect } from '../planting.ts';

const planning = 'test/publish/plan-publication.test.ts';
const s3 = 'test/publish/s3-store.test.ts';

/** Of publications into files, buckets and databases. */
export const publishDefects: readonly Defect[] = [
  {
    id: 'restored-sink-unnoticed',
    name: 'restoredBecause',
    find: 'one.startedAt < startedAt',
    replace: 'one.startedAt > startedAt',
    because: 'A sink that was restored from a backup continues publications whose changes it does not know.',
    foundBy: planning,
  },
  {
    id: 'changes-published-twice',
    name: 'planEntity',
    find: 'after: old?.through ?? 0,',
    replace: 'after: old?.after ?? 0,',
    because: 'Each publication has the changes of the one before again.',
    foundBy: planning,
  },
  {
    id: 'target-ahead-accepted',
    name: 'planEntity',
    find: 'if (old !== null && old.through > connector.newestSeq) throw',
    replace:
      'if (old !== null && old.through > connector.newestSeq && old.after > connector.newestSeq) throw',
    because: 'A sink that is behind its target publishes nothing for long, and nobody learns why.',
    foundBy: planning,
  },
  {
    id: 'manifest-overwritten',
    name: 'openS3Store',
    find: "writeText(name, text, { IfNoneMatch: '*' })",
    replace: 'writeText(name, text)',
    because: "Two publishers overwrite each other's publication in a bucket.",
    foundBy: s3,
  },
  {
    id: 'byte-lost-at-a-break',
    name: 'readObject',
    find: 'failure = error;',
    replace: 'return Buffer.alloc(0);',
    because: 'An object whose connection broke is read with bytes missing.',
    foundBy: s3,
  },
  {
    id: 'older-row-wins-in-postgres',
    name: 'mergeRows',
    find: 'WHERE t._seq < excluded._seq`',
    replace: 'WHERE t._seq <> excluded._seq`',
    because: 'A publication that is repeated late puts an older state over a newer one.',
    foundBy: 'test/publish/postgres-target.test.ts',
  },
  {
    id: 'own-column-taken',
    name: 'nameColumns',
    find: 'for (let suffix = 2; taken.has(name.toLowerCase()); suffix += 1)',
    replace: 'for (let suffix = 2; taken.has(name); suffix += 1)',
    because:
      'A field that is called as a column of the program but in capitals makes files that databases refuse.',
    foundBy: planning,
  },
  {
    id: 'needed-files-pruned',
    name: 'firstNeeded',
    find: 'readable.map(({ base }) => base)',
    replace: 'readable.map(({ publication }) => publication)',
    because: 'Files are removed that readers of a kept publication need.',
    foundBy: 'test/publish/object-target.test.ts',
    titled: 'keeps what readers of the kept publications need, and the chain begins with the oldest of these',
  },
  {
    id: 'readable-publication-pruned',
    name: 'firstNeeded',
    find: 'manifests[index + 1]?.createdMs',
    replace: 'manifests[index]?.createdMs',
    because: 'A publication is removed while it is still the newest that a slow reader knows.',
    foundBy: 'test/publish/object-target.test.ts',
    titled: 'keeps the publication that was the newest when the kept time begins',
  },
  {
    id: 'foreign-objects-removed',
    name: 'findUnnamed',
    find: 'if (groups === undefined) continue;',
    replace: 'if (groups === undefined && name === latestName) continue;',
    because: 'A prune removes what others have put into the bucket.',
    foundBy: 'test/publish/object-target.test.ts',
    titled: 'removes what killed publishers left after a day, and nothing that others put there',
  },
];
