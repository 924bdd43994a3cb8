import { diceFor } from '../dice.ts';
import { revisionClock } from '../revision-time.ts';
import { libraryKind, type Library } from './library.ts';
import { visible, type LibraryRevision, type LibraryWork } from './library-work.ts';
import { reviseAttachments } from './revise-attachments.ts';
import { reviseDocuments } from './revise-documents.ts';
import { reviseFolders } from './revise-folders.ts';

/** Changes of one revision, about. */
const expectedChanges = 16;

/** The library as it is after so many revisions; with 0 it is the one given. */
export function reviseLibrary(seed: number, library: Library, revisions: number): Library {
  const work: LibraryWork = {
    seed,
    folders: new Map(library.folders),
    documents: new Map(library.documents),
    attachments: new Map(library.attachments),
    gone: new Map(),
    passing: new Set(),
  };
  for (let revision = 1; revision <= revisions; revision += 1) {
    const underWay: LibraryRevision = {
      revision,
      clock: revisionClock(revision, expectedChanges, 1_000),
      dice: diceFor(seed, libraryKind.revision, revision),
    };
    reviseFolders(work, underWay);
    reviseDocuments(work, underWay);
    reviseAttachments(work, underWay);
  }
  return visible(work);
}
