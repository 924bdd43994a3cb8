import type { Dice } from '../dice.ts';
import type { RevisionClock } from '../revision-time.ts';
import type { Attachment, Folder, Library, LibraryDocument } from './library.ts';

/** A library while revisions are applied to it, one after the other. */
export interface LibraryWork {
  readonly seed: number;
  readonly folders: Map<string, Folder>;
  readonly documents: Map<string, LibraryDocument>;
  readonly attachments: Map<string, Attachment>;
  /** Ids of what was deleted, with the revision that did it: it may come back. */
  readonly gone: Map<string, number>;
  /** Folders that revisions add, delete and restore; documents come and go elsewhere. */
  readonly passing: Set<string>;
}

/** One revision under way. */
export interface LibraryRevision {
  readonly revision: number;
  readonly clock: RevisionClock;
  readonly dice: Dice;
}

/** Without what is deleted and whatever lies in it. */
export function visible({ folders, documents, attachments, gone }: LibraryWork): Library {
  const shown = <Thing>(
    things: ReadonlyMap<string, Thing>,
    isThere: (thing: Thing) => boolean,
  ): ReadonlyMap<string, Thing> =>
    new Map([...things].filter(([id, thing]) => !gone.has(id) && isThere(thing)));
  const shownFolders = shown(folders, () => true);
  const shownDocuments = shown(documents, ({ folderId }) => shownFolders.has(folderId));
  return {
    folders: shownFolders,
    documents: shownDocuments,
    attachments: shown(attachments, ({ documentId }) => shownDocuments.has(documentId)),
  };
}

/** Deleted in an earlier revision than the last: restored, oldest first. Undefined where there is none. */
export function takeGone<Thing extends { readonly id: string }>(
  { gone }: LibraryWork,
  things: ReadonlyMap<string, Thing>,
  revision: number,
  fits: (thing: Thing) => boolean,
): Thing | undefined {
  for (const [id, since] of gone) {
    const thing = things.get(id);
    if (thing === undefined || since > revision - 2 || !fits(thing)) continue;
    gone.delete(id);
    return thing;
  }
  return undefined;
}
