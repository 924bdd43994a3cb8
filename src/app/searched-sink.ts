import { usage } from '../core/usage-error.ts';
import type { EntityTarget } from '../settings/entity-target.ts';
import { storedIn } from './stored-fields.ts';

/**
 * The sink that a search of stored records reads, and its id. Throws USAGE where there is nothing to
 * search; `ofType`, `ofNothing`: what to do instead where it cannot be searched, and where nothing is stored.
 */
export async function searchedSink(
  target: EntityTarget,
  { ofType, ofNothing }: { readonly ofType: (directory: string) => string; readonly ofNothing: string },
) {
  const { name, connector } = target;
  const { sink } = connector;
  if (sink.type === 'jsonl') {
    throw usage(
      `${name} is in sink ${sink.name}, which cannot be searched (type jsonl): expected one of type sqlite or postgres. ${ofType(sink.directory)}`,
    );
  }
  const sinkId = await storedIn(target);
  if (sinkId === null) {
    throw usage(`Nothing of ${name} is stored in sink ${sink.name} yet. ${ofNothing}`);
  }
  return { sink, sinkId };
}
