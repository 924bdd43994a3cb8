/** A sink whose file this machine can open. */
export interface ServedSink {
  /** As the config file names it. */
  readonly name: string;
  /** Random, made with the file and kept in it. */
  readonly id: string;
  /** Absolute path of the file or folder. */
  readonly place: string;
}
