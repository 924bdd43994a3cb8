import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Contents, Recording } from './recording.ts';

interface Loss {
  /**
   * Numbers in [0, 1) that decide what becomes of each thing that was not synced; null: the power stays, and all of it
   * is there.
   */
  readonly random: (() => number) | null;
  /** Syncs of these files and folders count for nothing: a program without them would leave the same behind. */
  readonly ignoresSyncOf?: ((path: string) => boolean) | undefined;
}

/**
 * What the recorded folder may hold when power is lost after the first `count` operations. Of a file all that was
 * written before its last sync is there; each later write is lost (40 %), torn into blocks of 512 bytes of which each
 * may be lost (20 %), or there, whatever became of the ones before it. Where a lost write had made the file longer, it
 * may be longer all the same, with zeros. Names are kept as a journaling file system keeps them: all of before their
 * folder's last sync, and of the later changes the first ones.
 */
export function contentsAfter(
  { before, operations }: Recording,
  count: number,
  { random, ignoresSyncOf = () => false }: Loss,
): Contents {
  const root = newFolder();
  for (const [path, content] of before) setNames(root, [[path, entryOf(content)]]);
  markSynced(root);
  const opened = new Map<number, { readonly entry: Entry; readonly path: string }>();
  const change = (descriptor: number, made: Change): void => {
    const entry = opened.get(descriptor)?.entry;
    if (entry?.kind !== 'file') throw new Error(`descriptor ${descriptor} is no file`);
    entry.changes.push(made);
  };

  for (const operation of operations.slice(0, count)) {
    switch (operation.kind) {
      case 'opened': {
        const { path, descriptor, isCreated, isEmptied } = operation;
        if (isCreated) setNames(root, [[path, { kind: 'file', changes: [], synced: 0 }]]);
        opened.set(descriptor, { entry: find(root, path), path });
        if (isEmptied && !isCreated) change(descriptor, { length: 0 });
        break;
      }
      case 'written':
      case 'truncated':
        change(operation.descriptor, operation);
        break;
      case 'synced': {
        const of = opened.get(operation.descriptor);
        if (of !== undefined && !ignoresSyncOf(of.path)) of.entry.synced = of.entry.changes.length;
        break;
      }
      case 'renamed': {
        const { from, to } = operation;
        setNames(root, [
          [to, find(root, from)],
          [from, null],
        ]);
        break;
      }
      case 'removed':
        setNames(root, [[operation.path, null]]);
        break;
      case 'folder-made':
        setNames(root, [[operation.path, newFolder()]]);
        break;
      case 'told':
        break;
    }
  }
  return new Map(left(root, '', random));
}

/** Makes `contents` real below `folder`. */
export function writeContents(contents: Contents, folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const [path, content] of contents) {
    if (content === null) mkdirSync(join(folder, path), { mode: 0o700 });
    else writeFileSync(join(folder, path), content, { mode: 0o600 });
  }
}

type Change = { readonly offset: number; readonly data: Buffer } | { readonly length: number };

/** `synced`: so many of the changes are on the disk for good. */
type Entry = File | Folder;

interface File {
  readonly kind: 'file';
  readonly changes: Change[];
  synced: number;
}

interface Folder {
  readonly kind: 'folder';
  /** Each is of one name, or of the two of a rename, which happens whole. Null: the name was taken away. */
  readonly changes: (readonly Name[])[];
  synced: number;
}

type Name = readonly [name: string, entry: Entry | null];

function newFolder(): Folder {
  return { kind: 'folder', changes: [], synced: 0 };
}

function entryOf(content: Buffer | null): Entry {
  return content === null
    ? newFolder()
    : { kind: 'file', changes: [{ offset: 0, data: content }], synced: 1 };
}

function markSynced(folder: Folder): void {
  folder.synced = folder.changes.length;
  for (const entry of namesIn(folder).values()) {
    if (entry.kind === 'folder') markSynced(entry);
  }
}

function namesIn({ changes }: Folder, count = changes.length): ReadonlyMap<string, Entry> {
  const names = new Map<string, Entry>();
  for (const [name, entry] of changes.slice(0, count).flat()) {
    if (entry === null) names.delete(name);
    else names.set(name, entry);
  }
  return names;
}

function find(root: Folder, path: string): Entry {
  let entry: Entry = root;
  for (const name of path.split('/').filter((part) => part !== '' && part !== '.')) {
    const next: Entry | undefined = entry.kind === 'folder' ? namesIn(entry).get(name) : undefined;
    if (next === undefined) throw new Error(`${path} was not recorded from its beginning`);
    entry = next;
  }
  return entry;
}

function setNames(root: Folder, names: readonly Name[]): void {
  const folders = new Set(names.map(([path]) => dirname(path)));
  const [folder = '', ...others] = folders;
  const parent = find(root, folder);
  if (others.length > 0 || parent.kind !== 'folder') {
    throw new Error(`no change of one folder: ${[...folders].join()}`);
  }
  parent.changes.push(names.map(([path, entry]) => [basename(path), entry]));
}

function* left(folder: Folder, path: string, random: Loss['random']): Generator<[string, Buffer | null]> {
  const unsynced = folder.changes.length - folder.synced;
  const kept = random === null ? unsynced : Math.floor(random() * (unsynced + 1));
  for (const [name, entry] of namesIn(folder, folder.synced + kept)) {
    const at = join(path, name);
    // Its contents are a map in memory: an index that SQLite makes again.
    if (name.endsWith('-shm')) continue;
    if (entry.kind === 'file') {
      yield [at, contentOf(entry, random)];
    } else {
      yield [at, null];
      yield* left(entry, at, random);
    }
  }
}

const blockBytes = 512;

function contentOf({ changes, synced }: File, random: Loss['random']): Buffer {
  const ends = changes.map((change) =>
    'data' in change ? change.offset + change.data.length : change.length,
  );
  const content = Buffer.alloc(Math.max(0, ...ends));
  let length = 0;
  for (const [index, change] of changes.entries()) {
    const fate = random === null || index < synced ? 1 : random();
    if (!('data' in change)) {
      if (fate < 0.4) continue;
      content.fill(0, change.length);
      length = change.length;
      continue;
    }
    if (fate < 0.2) continue;
    const { offset, data } = change;
    const end = offset + data.length;
    length = Math.max(length, end);
    if (fate < 0.4) continue;
    for (let from = offset; from < end;) {
      const to = fate < 0.6 ? Math.min(end, (Math.floor(from / blockBytes) + 1) * blockBytes) : end;
      if (fate >= 0.6 || random === null || random() < 0.5) {
        data.copy(content, from, from - offset, to - offset);
      }
      from = to;
    }
  }
  return content.subarray(0, length);
}
