/** The worker's log: fields first, then the message, as pino and other structured loggers take them. */
export interface JobLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}
