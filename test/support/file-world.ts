import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JsonObject } from '../../src/core/json.ts';
import { startHostileServer } from './hostile-server.ts';
import { type HostileCall, type Reply, apiError, success, text } from './hostile/replies.ts';
import { instantClock } from './instant-clock.ts';
import { builtInDefinition } from './sample-service.ts';
import { sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';
import { syncOnce, type SyncOnce } from './sync-once.ts';

/** One attachment of the library, and how its download is answered. */
interface LibraryFile {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Instead of the bytes; asked for at each attempt. */
  readonly reply?: () => Reply;
  /** More of its record, or other than what follows from the bytes. */
  readonly record?: JsonObject;
}

export type FileWorld = Awaited<ReturnType<typeof openFileWorld>>;

export const library = builtInDefinition('document-library');

export interface FileWorldOptions {
  readonly sink?: SampleSinkType;
}

/**
 * A library of one folder and one document on a server of its own, whose attachments the test puts there and takes
 * away.
 */
export async function openFileWorld({ sink = 'sqlite' }: FileWorldOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'files-'));
  const directory = join(folder, 'files');
  const files = new Map<string, LibraryFile>();
  const server = await startHostileServer({
    connectors: [{ id: 'c1', name: 'Library', definitionId: library.id }],
    respond: (call) => respond(files, call),
  });
  const sinkOptions = (await sampleSinkOf(sink)).options(folder);
  const options = {
    baseUrl: server.baseUrl,
    definition: library,
    connectorId: 'c1',
    connector: 'library',
    sink: sinkOptions,
    files: { directory },
  };
  return {
    folder,
    /** Where the files land. */
    directory,
    sink: sinkOptions,
    server,
    files,
    /** Reads everything again, so that what changed is seen whatever its times say. */
    sync: async (more: Partial<SyncOnce> = {}) => {
      const { run = { isFull: true }, ...rest } = more;
      return await syncOnce({ ...options, clock: instantClock(), run, ...rest });
    },
    /** Attachment ids in the order in which their downloads were asked for. */
    asked: () => server.calls.flatMap(({ action, params }) => (action === 'download' ? [idIn(params)] : [])),
    /** What lies in the attachments' folder: name -> text. */
    stored: () => {
      const place = join(directory, 'library', 'attachments');
      return Object.fromEntries(
        readdirSync(place)
          .sort()
          .map((name) => [name, readFileSync(join(place, name), 'utf8')]),
      );
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function file(text: string, more: Partial<LibraryFile> = {}): LibraryFile {
  return { name: 'notes.txt', bytes: Buffer.from(text), ...more };
}

const at = '2026-05-01T00:00:00.000Z';

function respond(files: ReadonlyMap<string, LibraryFile>, call: HostileCall): Reply {
  const id = idIn(call.params);
  const found = files.get(id);
  if (call.action === 'download') {
    if (found === undefined) return apiError(404, 'no such attachment');
    return found.reply?.() ?? fileReply(found.bytes, found.name);
  }
  if (call.action === 'get') {
    const record = call.entity === 'attachments' && found !== undefined ? attachment(id, found) : null;
    return record === null ? apiError(404, `no such record`) : success(record);
  }
  const end = { has_next_page: false, end_cursor: null };
  if (call.entity === 'folders') return success([{ id: 'f1', name: 'All', updated_at: at }], end);
  if (call.entity === 'documents') {
    return success([{ id: 'd1', folder_id: 'f1', title: 'One', updated_at: at }], end);
  }
  return success(
    Array.from(files, ([one, held]) => attachment(one, held)),
    end,
  );
}

function idIn({ attachment_id: id }: JsonObject): string {
  return typeof id === 'string' ? id : '';
}

function attachment(id: string, { name, bytes, record = {} }: LibraryFile): JsonObject {
  return {
    id,
    document_id: 'd1',
    file_name: name,
    content_type: 'text/plain',
    size: bytes.byteLength,
    checksum: createHash('sha256').update(bytes).digest('hex'),
    ...record,
  };
}

/** A download as it should be. */
export function fileReply(bytes: Uint8Array, name: string, headers: Record<string, string> = {}): Reply {
  return text(200, bytes, {
    'content-type': 'text/plain',
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    'content-length': String(bytes.byteLength),
    ...headers,
  });
}
