require "json"
require_relative "lib/shelf"

# Lends books.
module Lending
  # A library.
  class Library < Base::House
    include Enumerable
    LIMIT = 3
    attr_reader :name, :books

    def initialize(name, limit = LIMIT, *rest, open: true, **options, &block)
      @name = name
      @books = []
      self.owner = rest.first
    end

    def self.open(path)
      new(JSON.parse(File.read(path)))
    end

    # Lends a book.
    def lend(book)
      raise Full, "no" unless room?
      @books << book
      count = @books.size
      each { |one, index| one.mark(index) }
      @last ||= book
      notify(count)
    rescue Lost => error
      log error
    end

    alias borrow lend

    private

    def room?
      books.size < LIMIT
    end

    public

    def each(&block) = books.each(&block)

    private def notify(count)
      puts "#{name} #{count}"
    end
  end

  Card = Struct.new(:number)
end

def main
  Lending::Library.open("x").lend(1)
end

$verbose = false
