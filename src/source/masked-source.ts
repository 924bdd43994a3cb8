import type { RecordMask } from '../core/record-mask.ts';
import type { Definition } from '../definitions/definition.ts';
import { maskedRecords } from './page-records.ts';
import type { FileSource, GetRequest, Source } from './source.ts';

/**
 * A source whose records have the masks of their entities, by whichever call they come: what reads from it never gets a
 * masked value. What a response has beside its records is left out, as are names that the service gives to files.
 */
export function maskedSource<Masked extends Pick<Source, 'list' | 'get'> & FileSource>(
  source: Masked,
  { entities }: Pick<Definition, 'entities'>,
): Masked {
  if ([...entities.values()].every(({ mask }) => mask === null)) return source;
  const maskOf = ({ entity }: GetRequest): RecordMask | null => entities.get(entity)?.mask ?? null;
  const list: Source['list'] = async (request, signal) => {
    const page = await source.list(request, signal);
    const mask = maskOf(request);
    return mask === null ? page : { ...page, records: maskedRecords(page.records, mask), metadata: null };
  };
  const get: Source['get'] = async (request, signal) => {
    const record = await source.get(request, signal);
    const mask = maskOf(request);
    return mask === null || record === null ? record : mask.record(record);
  };
  const download: FileSource['download'] = async (request, receive, signal) => {
    const isMasked = maskOf(request) !== null;
    const receiving: typeof receive = (file, within) =>
      receive(isMasked ? { ...file, name: null } : file, within);
    return await source.download(request, receiving, signal);
  };
  return { ...source, list, get, download };
}
