package org.example.text

import scala.collection.mutable
import org.example.{Token, Lexer => Tokens, _}

/** Reads text. */
abstract class Parser[T <: Token](private val lexer: Tokens, limit: Int = 10) extends Reader[T](lexer) with Logging {
  type Result = Either[String, T]
  val Limit = 100
  protected var depth: Int = 0

  def parse(text: String): Result

  /** Reads all. */
  def all(texts: List[String])(implicit clock: Clock): List[Result] = {
    val found = mutable.ListBuffer.empty[Result]
    for (text <- texts) {
      found += parse(text)
    }
    depth = depth + 1
    texts.map(t => parse(t)).headOption match {
      case Some(Right(token)) => log.info(token)
      case other => new Failure(other)
    }
    found.toList
  }
}

case class Position(line: Int, column: Int)

sealed trait Logging {
  def log: Logger
}

object Parser extends App {
  private def default = Position(1, 1)
}

enum Color {
  case Red, Green
}
